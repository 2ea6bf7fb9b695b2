// Memory that processes share: written by the one that made it, and only read by all others.
//
// A slab is a memfd of one fixed size: a table of generations, one for each unit, then the units.
// It has no name in any file system, so it is gone when the last process that has it is. Sealed, so
// that it never gets shorter under a reader, and (Linux 5.1) so that nobody maps it to write.
// Thread: any; whoever has a block writes it. Errors: unavailable, with what the system says;
// corrupt, for a descriptor that is no such slab. Bounds: `slab_file_bytes` of address space.
// Source: memfd_create(2), fcntl(2) F_ADD_SEALS; docs/NETWORK.md, "Shared memory".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/owned_file.h"
#include "base/result.h"
#include "runtime/shm/block_pool.h"

namespace sluice::shm {

inline constexpr std::size_t slab_table_bytes = std::size_t{64} << 10U;
inline constexpr std::size_t slab_file_bytes = slab_table_bytes + BlockPool::slab_bytes;
static_assert(BlockPool::slab_units * sizeof(std::uint64_t) <= slab_table_bytes);

/// Pages of a slab in this process, unmapped with the object.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { reset(); }
  /// All of the slab. Null at `get` when the system does not let us; `errno` says why.
  static Mapping of(int descriptor, bool to_write);
  void reset();
  std::byte* get() const { return at_; }

 private:
  std::byte* at_ = nullptr;
};

/// The owner's side.
class Slab {
 public:
  static Result<std::unique_ptr<Slab>> make();

  int descriptor() const { return file_.get(); }
  std::byte* at(std::uint32_t block) const {
    return mapping_.get() + slab_table_bytes + block * BlockPool::unit_bytes;
  }
  /// What stands in the block from now on; 0: nothing that anybody may read.
  void mark(std::uint32_t block, std::uint64_t generation) const;
  /// Gets the memory of a block from the system, so that writing there cannot fail. Asked once for
  /// each, but where blocks have joined since.
  bool fill(std::uint32_t block, std::size_t size);

 private:
  OwnedFile file_;
  Mapping mapping_;
  /// How many units are known to have memory, from each one on. So a large block is not counted.
  std::vector<std::uint32_t> filled_from_ = std::vector<std::uint32_t>(BlockPool::slab_units);
};

/// A reader's side.
class SlabView {
 public:
  /// Takes nothing on trust: that it is a memfd, its size, its seals.
  static Result<std::unique_ptr<SlabView>> map(const OwnedFile& file);

  /// The bytes, if the block holds that generation now. Errors: corrupt.
  Result<const std::byte*> find(const wire::Handle& handle, std::size_t size) const;

 private:
  Mapping mapping_;
};

}  // namespace sluice::shm
