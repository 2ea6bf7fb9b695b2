// A file descriptor, closed with the object. Thread: one at a time.
#pragma once

#include <unistd.h>

#include <utility>

namespace sluice {

class OwnedFile {
 public:
  explicit OwnedFile(int descriptor = -1) : descriptor_(descriptor) {}
  OwnedFile(OwnedFile&& other) noexcept : descriptor_(other.release()) {}
  OwnedFile& operator=(OwnedFile&& other) noexcept {
    if (this == &other) return *this;
    close();
    descriptor_ = other.release();
    return *this;
  }
  ~OwnedFile() { close(); }
  void close() {
    if (descriptor_ >= 0) ::close(release());
  }
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  /// It is the caller's from now on.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

}  // namespace sluice
