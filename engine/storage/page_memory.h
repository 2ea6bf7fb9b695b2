// The memory of a pool's pages that several processes of this machine write: a file without a name,
// mapped by each of them.
//
// It is sealed, so nobody can make it shorter under another's feet. Whoever has the descriptor may
// read and write all of it: it is given to processes of this program alone. It goes with the last
// process that has it. Thread: any. Units: bytes. Errors: unavailable (the system has no such
// memory, or not so much), corrupt (a descriptor that is no such memory).
// Source: memfd_create(2), fcntl(2) F_ADD_SEALS.
#pragma once

#include <cstddef>
#include <utility>

#include "base/buffer.h"
#include "base/result.h"

namespace sluice {

/// A file descriptor, closed with the object.
class OwnedFile {
 public:
  explicit OwnedFile(int descriptor = -1) : descriptor_(descriptor) {}
  OwnedFile(OwnedFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OwnedFile& operator=(OwnedFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~OwnedFile();
  int get() const { return descriptor_; }
  /// It is the caller's from now on.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

struct PageMemory {
  OwnedFile file;
  Ref<Buffer> bytes;  // zeros at first

  static Result<PageMemory> make(std::size_t size);
};

/// The same memory in another process. `size`: as it was made.
Result<Ref<Buffer>> map_page_memory(const OwnedFile& file, std::size_t size);

}  // namespace sluice
