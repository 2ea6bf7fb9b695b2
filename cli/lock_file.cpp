#include "cli/lock_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

namespace sluice::cli {

namespace {

constexpr std::size_t name_bytes_max = 400;

/// The file that was opened is still the one of that name.
bool is_same(int file, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

struct flock whole_file() {
  struct flock all {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  return all;
}

/// Whether another holds the file that this descriptor has open.
bool is_held(int file, const std::string& path) {
  struct flock all = whole_file();
  return ::fcntl(file, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK && is_same(file, path);
}

}  // namespace

Result<LockFile> LockFile::take(const std::string& path, const std::string& name) {
  for (;;) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return Error{ErrorCode::unavailable, path + ": " + std::strerror(errno)};
    struct flock all = whole_file();
    if (::fcntl(file, F_OFD_SETLK, &all) != 0) {
      ::close(file);
      return Error{ErrorCode::unavailable, path + ": another process holds it"};
    }
    if (!is_same(file, path)) {
      ::close(file);  // its holder has just removed it
      continue;
    }
    LockFile lock(path, file);
    const std::string text =
        std::to_string(::getpid()) + " " + name.substr(0, name_bytes_max) + "\n";
    if (::ftruncate(file, 0) == 0 &&
        ::pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()))
      return lock;
    return Error{ErrorCode::unavailable, path + ": " + std::strerror(errno)};
  }
}

LockFile::LockFile(LockFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

LockFile::~LockFile() {
  if (file_ < 0) return;
  ::unlink(path_.c_str());
  ::close(file_);
}

bool is_locked(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  const bool held = is_held(file, path);
  ::close(file);
  return held;
}

std::optional<LockHolder> lock_holder(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return {};
  std::array<char, name_bytes_max + 32> bytes{};
  const ssize_t size = ::pread(file, bytes.data(), bytes.size(), 0);
  const bool held = is_held(file, path);
  ::close(file);
  if (!held || size <= 0) return {};
  const std::string_view text(bytes.data(), static_cast<std::size_t>(size));
  const std::size_t space = text.find(' ');
  LockHolder holder;
  if (space == text.npos || text.back() != '\n' ||
      std::from_chars(text.data(), text.data() + space, holder.pid).ptr != text.data() + space ||
      holder.pid <= 0)
    return {};
  holder.name = text.substr(space + 1, text.size() - space - 2);
  return holder;
}

}  // namespace sluice::cli
