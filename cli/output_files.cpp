#include "cli/output_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/call_value.h"
#include "engine/picture/image_file.h"
#include "roles/npy_file.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

enum class Open { over, append, new_file };

Error not_written(const std::string& path, int why) {
  return {ErrorCode::unavailable, path + ": cannot be written: " + std::strerror(why)};
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// False: there is such a file, and a new one was asked for.
Result<bool> write_file(const std::string& path, std::string_view bytes, Open how) {
  const int flags = how == Open::over     ? O_TRUNC | O_CREAT
                    : how == Open::append ? O_APPEND
                                          : O_EXCL | O_CREAT;
  // Without O_NONBLOCK a pipe that nobody reads is waited for here.
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, 0666);
  if (file < 0 && errno == EEXIST && how == Open::new_file) return false;
  if (file < 0) return not_written(path, errno);
  ::fcntl(file, F_SETFL, how == Open::append ? O_APPEND : 0);
  const bool written = write_all(file, bytes);
  const int why = errno;
  if (::close(file) != 0 && written) return not_written(path, errno);
  if (!written) return not_written(path, why);
  return true;
}

/// "b/c.png" and 2: "b/c-2.png"
std::string numbered(const fs::path& path, int number) {
  if (number == 1) return path.string();
  return (path.parent_path() / path.stem()).string() + "-" + std::to_string(number) +
         path.extension().string();
}

/// Under the first name that is free, of those from `number` on.
Result<std::string> write_new(const std::string& path, std::string_view bytes, int number) {
  for (;; ++number) {
    std::string chosen = numbered(path, number);
    const Result<bool> written = write_file(chosen, bytes, Open::new_file);
    if (!written.ok()) return written.error();
    if (*written) return chosen;
  }
}

/// True when what is written to the one is lost by writing to the other.
bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code failed;
  if (fs::exists(one, failed) && !fs::is_regular_file(one, failed)) return false;  // /dev/null
  if (fs::equivalent(one, other, failed)) return true;
  return fs::weakly_canonical(fs::absolute(one, failed), failed) ==
         fs::weakly_canonical(fs::absolute(other, failed), failed);
}

std::string names_of(const std::vector<OutputType>& outputs) {
  std::string all;
  for (const OutputType& output : outputs) all += (all.empty() ? "" : ", ") + output.name;
  return all;
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// The output that a lone FILE is for.
Result<std::string> only_file_output(const std::string& file,
                                     const std::vector<OutputType>& outputs) {
  std::vector<OutputType> candidates;
  for (const OutputType& output : outputs)
    if (is_file_type(output.type) || output.type == ValueType::any) candidates.push_back(output);
  if (candidates.size() == 1) return candidates[0].name;
  if (candidates.empty())
    return invalid_argument("--out " + file +
                            ": no output is a picture or a tensor; the others go "
                            "to a file by name: --out " +
                            outputs.front().name + "=" + file);
  return invalid_argument("--out " + file + ": several outputs go to files (" +
                          names_of(candidates) + "); write --out " + candidates[0].name + "=" +
                          file + ", or name a folder");
}

/// A name that promises what the file will not be.
Result<void> check_name(const fs::path& path, ValueType type) {
  if (path == "-")
    return invalid_argument(
        "outputs go to files; text stands on standard output where --out does not name it, a file "
        "called '-' is ./-");
  const std::string ending = path.extension().string();
  const std::string right = type == ValueType::image ? ".png" : ".npy";
  const bool known = is_one_of(
      ending, {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".npy", ".npz", ".safetensors"});
  if (!is_file_type(type) || !known || ending == right) return {};
  return invalid_argument(std::string(type == ValueType::image ? "a picture is written as PNG"
                                                               : "a tensor is written as NPY") +
                          "; name it " + fs::path(path).replace_extension(right).string());
}

}  // namespace

Result<OutputFiles> OutputFiles::make(const std::vector<std::string>& given,
                                      const std::vector<OutputType>& outputs) {
  OutputFiles files;
  for (const std::string& text : given) {
    std::error_code failed;
    const std::size_t equals = text.find('=');
    if (equals == 0)
      return invalid_argument("--out " + text + ": no output is named before the '='");
    std::string name = text.substr(0, equals);
    std::string path = text;
    if (equals != std::string::npos && is_name(name)) {
      if (std::ranges::find(outputs, name, &OutputType::name) == outputs.end())
        return invalid_argument("--out " + text + ": the workflow has no output '" + name +
                                "'; it has " + names_of(outputs));
      path = text.substr(equals + 1);
    } else if (text.ends_with('/') || fs::is_directory(text, failed)) {
      if (!files.folder_.empty())
        return invalid_argument("--out " + text + ": a folder is named already");
      Result<OutputFiles> there = in_folder(text);
      if (!there.ok()) return there.error();
      files.folder_ = there->folder_;
      continue;
    } else {
      Result<std::string> only = only_file_output(text, outputs);
      if (!only.ok()) return only.error();
      name = std::move(only).value();
    }
    if (path.empty()) return invalid_argument("--out " + text + ": the file's name is missing");
    const auto type = std::ranges::find(outputs, name, &OutputType::name)->type;
    if (const Result<void> fits = check_name(path, type); !fits.ok())
      return invalid_argument("--out " + text + ": " + fits.error().message);
    if (const std::string other = files.name_of(path); !other.empty() && other != name)
      return invalid_argument("--out " + text + ": the output '" + other + "' goes to that file");
    if (const Result<void> can = check_can_write(path); !can.ok()) return can.error();
    if (!files.named_.emplace(name, path).second)
      return invalid_argument("--out " + text + ": the output '" + name + "' has a file already");
  }
  return files;
}

Result<OutputFiles> OutputFiles::in_folder(const std::string& folder) {
  OutputFiles files;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return not_written(folder, failed.value());
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return not_written(folder, errno);
  files.folder_ = folder;
  return files;
}

std::string OutputFiles::name_of(const std::string& path) const {
  const auto it = std::ranges::find_if(
      named_, [&](const auto& named) { return is_same_file(path, named.second); });
  return it == named_.end() ? "" : it->first;
}

bool OutputFiles::takes(std::string_view output, const Payload& value) const {
  return is_file_type(value.type) || named_.contains(output);
}

Result<std::string> OutputFiles::write(std::string_view output, const Payload& value,
                                       const std::string& prefix) {
  const std::string bytes = file_bytes(value);
  const auto named = named_.find(output);
  if (named == named_.end()) {
    const char* extension = value.type == ValueType::image ? ".png" : ".npy";
    return write_new((fs::path(folder_) / (prefix + std::string(output) + extension)).string(),
                     bytes, 1);
  }
  const std::string& path = named->second;
  const bool first = begun_.emplace(output).second;
  std::error_code failed;
  const bool is_device = fs::exists(path, failed) && !fs::is_regular_file(path, failed);
  if (!first && is_file_type(value.type) && !is_device) return write_new(path, bytes, 2);
  const Result<bool> written = write_file(path, bytes, first ? Open::over : Open::append);
  return written.ok() ? Result<std::string>(path) : Result<std::string>(written.error());
}

std::vector<std::string> OutputFiles::unwritten() const {
  std::vector<std::string> words;
  for (const auto& [output, path] : named_)
    if (!begun_.contains(output))
      words.push_back("nothing came for the output '" + output + "': " + path + " was not written");
  return words;
}

std::vector<std::string> files_below(const std::string& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return {path};
  std::vector<std::string> files;
  for (auto it = fs::recursive_directory_iterator(path, failed);
       !failed && it != fs::recursive_directory_iterator(); it.increment(failed))
    if (it->is_regular_file(failed)) files.push_back(it->path().string());
  return files;
}

Result<void> check_not_over(const std::string& option, const std::string& path,
                            const std::vector<std::string>& read) {
  for (const std::string& file : read) {
    std::error_code failed;
    if (file.empty() || file == "-" || !fs::exists(file, failed)) continue;
    if (is_same_file(file, path))
      return invalid_argument(option + ": it would be written over " + file +
                              ", which is read: name another file");
  }
  return {};
}

Result<void> check_not_read(const OutputFiles& files, const std::string& trace,
                            const std::vector<std::string>& read) {
  for (const auto& [output, path] : files.named())
    if (const Result<void> kept = check_not_over("--out " + output, path, read); !kept.ok())
      return kept;
  return trace.empty() ? Result<void>() : check_not_over("--trace " + trace, trace, read);
}

Result<void> check_can_write(const std::string& path) {
  std::error_code failed;
  if (fs::is_directory(path, failed)) return not_written(path, EISDIR);
  if (fs::exists(path, failed)) {
    if (::access(path.c_str(), W_OK) != 0) return not_written(path, errno);
    return {};
  }
  const fs::path folder = fs::path(path).parent_path() / ".";  // a file is none
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return not_written(path, errno);
  return {};
}

std::string file_bytes(const Payload& value) {
  if (value.type == ValueType::image) return encode_png(value.tensor);
  if (is_file_type(value.type)) return encode_npy(value.tensor);
  if (value.type == ValueType::number) return std::to_string(value.number) + "\n";
  return value.type == ValueType::json ? value.text + "\n" : value.text;
}

}  // namespace sluice::cli
