#include "engine/checkpoint/identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/sha256.h"

namespace sluice {

namespace {

/// False: there is no such file.
bool append_file(const std::string& path, std::string& text) {
  struct stat about = {};
  if (::stat(path.c_str(), &about) != 0) return false;
  for (const auto number :
       {static_cast<std::int64_t>(about.st_dev), static_cast<std::int64_t>(about.st_ino),
        static_cast<std::int64_t>(about.st_size), static_cast<std::int64_t>(about.st_mtim.tv_sec),
        static_cast<std::int64_t>(about.st_mtim.tv_nsec)})
    text += std::to_string(number) + ' ';
  text += std::filesystem::path(path).filename().string() + '\n';
  return true;
}

}  // namespace

std::string checkpoint_identity(const std::string& path) {
  std::error_code error;
  std::vector<std::string> files;
  if (std::filesystem::is_directory(path, error)) {
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
         it.increment(error))
      files.push_back(it->path().string());
    std::ranges::sort(files);
  } else {
    files.push_back(path);
  }
  std::string text;
  if (error) return {};
  for (const std::string& file : files)
    if (!append_file(file, text)) return {};
  const auto digest = sha256(text);
  return {digest.begin(), digest.end()};
}

}  // namespace sluice
