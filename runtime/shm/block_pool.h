// Which blocks of shared memory are in use, by whom, and which may be used next.
//
// Slabs of one size hold blocks of a power of two of units: a block that is freed joins its other
// half (a buddy system), and the one that was freed last is used first, while it is in the cache.
// A block is free when its owner has let go of it and every reader has given it back. A reader who
// may never come back is *suspected*: what only he and others like him hold is in quarantine, and
// not used again before he gives it back or is gone, because he may still read it.
// Pure. Thread: one at a time. Bounds: `slabs_max` slabs. Units: bytes, unless it says units.
// Invariant: free + used + quarantined = capacity; a generation is given once.
// Source: Knowlton, A fast storage allocator (1965); omni-flow, section 4.1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/wire/lending.h"

namespace sluice::shm {

/// Names a reader: one connection of one life of a machine.
using Reader = std::uint64_t;

class BlockPool {
 public:
  static constexpr std::size_t unit_bytes = std::size_t{16} << 10U;
  static constexpr unsigned orders = 13;
  static constexpr std::uint32_t slab_units = 1U << (orders - 1);
  static constexpr std::size_t slab_bytes = slab_units * unit_bytes;  // 64 MiB

  explicit BlockPool(std::size_t slabs_max) : slabs_max_(slabs_max) {}

  std::size_t slabs() const { return slabs_.size(); }
  bool may_grow() const { return slabs_.size() < slabs_max_; }
  /// Another slab is there, all of it free.
  void grow();

  /// A block of at least so many bytes, held by its owner. Looks in the first `slabs` slabs only.
  /// Nothing: none is large enough, or the size is 0 or more than a slab.
  std::optional<wire::Handle> acquire(std::size_t size, std::size_t slabs);
  /// The owner lets go of it. Requires: he holds it.
  void let_go(const wire::Handle& handle);
  /// A reader has it, too. Requires: the owner or a reader holds it.
  void lend(const wire::Handle& handle, Reader reader);
  /// False when the reader does not have it: nothing was done.
  [[nodiscard]] bool give_back(const wire::Handle& handle, Reader reader);
  void suspect(Reader reader, bool is_suspected);
  /// Nothing reads for him any more. Returns what he had.
  std::vector<wire::Handle> gone(Reader reader);

  /// Whether the handle is of a block that is in use.
  bool holds(const wire::Handle& handle) const;
  /// Of the whole block. Requires: `holds`.
  std::size_t size_of(const wire::Handle& handle) const;
  /// What that reader has, each block once.
  std::size_t held_by(Reader reader) const;

  struct Totals {
    std::size_t capacity = 0;
    std::size_t free = 0;
    std::size_t used = 0;
    std::size_t quarantined = 0;
  };
  Totals totals() const;

 private:
  static constexpr std::uint32_t none = 0xffffffffU;
  enum class State : std::uint8_t { inside, free, held };
  struct Holder {
    Reader reader = 0;
    std::uint32_t times = 0;
  };
  /// A unit; what stands here counts where a block begins.
  struct Unit {
    State state = State::inside;
    std::uint8_t order = 0;
    bool owned = false;
    std::uint64_t generation = 0;
    std::uint32_t next = none, previous = none;  // free blocks of this order
    std::vector<Holder> holders;
  };
  struct Slab {
    std::vector<Unit> units;
    std::array<std::uint32_t, orders> first{};  // free blocks, by order
  };
  struct Having {
    bool suspected = false;
    std::size_t bytes = 0;
  };

  static std::size_t bytes_of(const Unit& unit) { return unit_bytes << unit.order; }
  Unit& unit(const wire::Handle& handle) { return slabs_[handle.slab].units[handle.block]; }
  void put_free(Slab& slab, std::uint32_t at, unsigned order);
  void take_free(Slab& slab, std::uint32_t at);
  void drop_holder(const wire::Handle& handle, std::size_t which);
  void free_if_unheld(const wire::Handle& handle);
  bool is_quarantined(const Unit& unit) const;

  const std::size_t slabs_max_;
  std::vector<Slab> slabs_;
  std::map<Reader, Having> readers_;
  std::uint64_t generation_ = 0;
};

}  // namespace sluice::shm
