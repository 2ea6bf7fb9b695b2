// A file that one process holds at a time, and that is gone when it lets go.
//
// The kernel lets go for a process that dies; its file stays, and the next one takes it over. The
// holder's number and name stand in it, so that they are known without asking the holder. Looking
// takes nothing: who looks stands in nobody's way. Errors: unavailable, also where another process
// holds it. Source: fcntl(2), open file description locks.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.h"

namespace sluice::cli {

class LockFile {
 public:
  /// `name`: what the holder is, for others to read; one line, cut at 400 bytes.
  static Result<LockFile> take(const std::string& path, const std::string& name = {});
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
struct LockHolder {
  pid_t pid = 0;
  std::string name;
};
/// Nothing: nobody, or it has only just taken it.
std::optional<LockHolder> lock_holder(const std::string& path);

}  // namespace sluice::cli
