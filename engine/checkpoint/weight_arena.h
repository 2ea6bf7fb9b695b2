// Memory for the matrices of one part of a checkpoint, which processes of this machine share.
//
// Who loads the part makes an arena and keeps matrices in it; then it is sealed, and nobody can
// change it any more. Others attach it, and find the same matrices in the same physical pages. It
// is a file without a name (memfd) that goes with the last process which has it.
// Owns: the mapping, together with all matrices that are over it. Thread: one at a time; matrices
// any. Errors: unavailable (the system has no such memory, or not so much), corrupt (a descriptor
// that is none of ours, or a table that does not fit), stale (another part's).
// Source: memfd_create(2), fcntl(2) F_ADD_SEALS, madvise(2) MADV_COLLAPSE.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/owned_file.h"
#include "base/result.h"
#include "engine/checkpoint/weight_table.h"

namespace sluice {

/// Of memory that nobody can change or cut. None: it is something else.
std::optional<std::size_t> sealed_size(const OwnedFile& file);

class WeightArena {
 public:
  /// Empty, to be filled.
  static Result<WeightArena> make(const PartKey& key);
  /// That another process has sealed.
  static Result<WeightArena> attach(const OwnedFile& file, const PartKey& key);

  /// Whether it was attached.
  bool is_sealed() const { return memory_file_.get() < 0; }
  std::size_t bytes() const { return used_; }

  /// The matrix of that name, if it is there and is kept so.
  std::optional<kernels::Weight> find(const std::string& name, std::size_t out, std::size_t in,
                                      kernels::WeightFormat format) const;
  /// The same matrix in this memory, to be used in place of the given one; where it finds no room,
  /// or stands in a file, the given one. Requires: not sealed.
  kernels::Weight keep(const std::string& name, kernels::Weight weight);
  /// To hand on: a descriptor that may only read. Errors: also of what found no room.
  Result<OwnedFile> seal();

  /// Kept as long as the memory is mapped here.
  void hold(std::shared_ptr<const void> with);

 private:
  struct Mappings;
  /// A piece of the file, mapped to be read while more is written behind it.
  struct Window {
    const std::byte* at = nullptr;
    std::size_t begin = 0, size = 0;
  };

  WeightArena() = default;
  Result<Window*> window_for(std::size_t offset, std::size_t size);
  Result<void> write(std::size_t offset, std::span<const std::byte> bytes) const;
  Result<void> put(const StoredMatrix& matrix, const kernels::Weight& weight) const;

  PartKey key_{};
  OwnedFile memory_file_, read_only_;  // none: attached, or sealed
  std::shared_ptr<Mappings> mappings_;
  Window window_;  // the newest
  WeightTable table_;
  std::size_t used_ = weight_header_bytes;
  std::optional<Error> failed_;
};

}  // namespace sluice
