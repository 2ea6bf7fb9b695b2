// A file that one process holds at a time, and that is gone when it lets go.
//
// The kernel lets go for a process that dies; its file stays, and the next one takes it over. The
// holder's number stands in it, so that it is known without asking the holder. Looking takes
// nothing: who looks stands in nobody's way. Errors: unavailable, also where another process holds
// it. Source: fcntl(2), open file description locks.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.h"

namespace sluice::cli {

class LockFile {
 public:
  static Result<LockFile> take(const std::string& path);
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&& other) = delete;
  ~LockFile();

 private:
  LockFile(std::string path, int file) : path_(std::move(path)), file_(file) {}
  std::string path_;
  int file_;
};

/// Whether a process holds it now.
bool is_locked(const std::string& path);
/// Which. Nothing: nobody, or it has only just taken it.
std::optional<pid_t> lock_holder(const std::string& path);

}  // namespace sluice::cli
