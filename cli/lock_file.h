// A file that one process holds at a time, and that is gone when it lets go.
//
// The kernel lets go for a process that dies; its file stays, and the next one takes it over.
// Errors: unavailable, `is_held` when another process has it.
#pragma once

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

}  // namespace sluice::cli
