#include "cli/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace sluice::cli {

namespace {

/// The file that was opened is still the one of that name.
bool is_same(int file, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

Result<LockFile> LockFile::take(const std::string& path) {
  for (;;) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return Error{ErrorCode::unavailable, path + ": " + std::strerror(errno)};
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      ::close(file);
      return Error{ErrorCode::unavailable, path + ": another process holds it"};
    }
    if (is_same(file, path)) return LockFile(path, file);
    ::close(file);  // its holder has just removed it
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
  const bool held = ::flock(file, LOCK_EX | LOCK_NB) != 0 && is_same(file, path);
  ::close(file);
  return held;
}

}  // namespace sluice::cli
