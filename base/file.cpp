#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace sluice {

Result<std::string> read_whole_file(const std::string& path, std::size_t bytes_max) {
  // Without O_NONBLOCK a pipe nobody writes to is waited for here.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 && (errno == ENOENT || errno == ENOTDIR))
    return Error{ErrorCode::not_found, path + ": no such file"};
  if (file < 0) return invalid_argument(path + ": cannot be read: " + std::strerror(errno));
  struct Closed {
    int file;
    ~Closed() { ::close(file); }
  } const closed{file};
  struct stat facts {};
  const bool known = fstat(file, &facts) == 0;
  if (known && S_ISDIR(facts.st_mode))
    return invalid_argument(path + ": this is a folder, not a file");
  if (!known || !S_ISREG(facts.st_mode)) return invalid_argument(path + ": not a regular file");
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size > bytes_max)
    return Error{ErrorCode::exhausted, path + ": the file has " + std::to_string(size) +
                                           " bytes, the limit is " + std::to_string(bytes_max)};
  std::string bytes(size, '\0');
  std::size_t at = 0;
  while (at < size) {
    const ssize_t count = ::read(file, bytes.data() + at, size - at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return invalid_argument(path + ": cannot be read: " + std::strerror(errno));
    if (count == 0) break;  // it has become shorter
    at += static_cast<std::size_t>(count);
  }
  bytes.resize(at);
  return bytes;
}

Result<bool> is_there(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return invalid_argument(path + ": cannot be read: " + std::strerror(errno));
}

}  // namespace sluice
