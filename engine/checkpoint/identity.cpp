#include "engine/checkpoint/identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/crc32c.h"
#include "base/sha256.h"
#include "engine/checkpoint/mapped_file.h"

namespace sluice {

namespace {

/// What is read of a folder besides its weights.
constexpr std::string_view files_read[] = {
    "chat_template.jinja",      "chat_template.json", "config.json",     "dataset_statistics.json",
    "generation_config.json",   "tokenizer.json",     "tokenizer.model", "tokenizer_config.json",
    "preprocessor_config.json",
};

bool is_read(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
         std::ranges::find(files_read, name) != std::end(files_read);
}

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

/// A checksum for each piece; what differs in many pieces would have to meet in all of them.
bool append_bytes(const std::string& path, std::string& text) {
  constexpr std::size_t piece = std::size_t{1} << 20U;
  std::error_code error;
  text += std::filesystem::path(path).filename().string() + '\n';
  if (!std::filesystem::is_regular_file(path, error)) return !error;
  text += std::to_string(std::filesystem::file_size(path, error)) + ' ';
  if (error || text.ends_with("\n0 ")) return !error;
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return false;
  for (std::size_t at = 0; at < file->bytes.size(); at += piece)
    text +=
        std::to_string(crc32c(file->bytes.subspan(at, std::min(piece, file->bytes.size() - at)))) +
        ' ';
  return true;
}

std::string identity(const std::string& path, bool (*append)(const std::string&, std::string&)) {
  std::error_code error;
  std::vector<std::string> files;
  if (std::filesystem::is_directory(path, error)) {
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
         it.increment(error)) {
      std::error_code broken;  // a link to nowhere: what it is to be cannot be read
      if (is_read(it->path()) && !std::filesystem::is_directory(it->path(), broken))
        files.push_back(it->path().string());
    }
    std::ranges::sort(files);
  } else {
    files.push_back(path);
  }
  std::string text;
  if (error) return {};
  for (const std::string& file : files)
    if (!append(file, text)) return {};
  const auto digest = sha256(text);
  return {digest.begin(), digest.end()};
}

}  // namespace

std::string checkpoint_identity(const std::string& path) { return identity(path, append_file); }

std::string checkpoint_content(const std::string& path) { return identity(path, append_bytes); }

}  // namespace sluice
