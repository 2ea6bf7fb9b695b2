// A hash table from 64-bit keys to 32-bit numbers with room fixed at construction.
//
// Linear probing, at most half full; erasing closes the gap, so nothing decays with time.
// Thread: one. Cost: constant time on average, no allocation after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"

namespace sluice {

/// A bijection that spreads small numbers over all bits (the finaliser of SplitMix64).
inline std::uint64_t spread(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class KeyTable {
 public:
  static constexpr std::uint32_t none = 0xffffffffu;

  explicit KeyTable(std::uint64_t most) : most_(most) {
    std::uint64_t size = 16;
    while (size < 2 * most) size *= 2;
    cells_.resize(size);
    mask_ = size - 1;
  }

  std::uint64_t size() const { return size_; }
  void prefetch(std::uint64_t key) const { __builtin_prefetch(&cells_[spread(key) & mask_]); }

  std::uint32_t find(std::uint64_t key) const {
    if (size_ == 0) return none;  // an empty table is not fetched from memory
    for (std::uint64_t at = spread(key) & mask_;; at = (at + 1) & mask_) {
      if (cells_[at].value == none) return none;
      if (cells_[at].key == key) return cells_[at].value;
    }
  }
  /// `key` must not be in the table yet.
  void insert(std::uint64_t key, std::uint32_t value) {
    SLUICE_CHECK(size_ < most_ && value != none);
    std::uint64_t at = spread(key) & mask_;
    while (cells_[at].value != none) at = (at + 1) & mask_;
    cells_[at] = {key, value};
    ++size_;
  }
  bool erase(std::uint64_t key) {
    std::uint64_t at = spread(key) & mask_;
    while (cells_[at].key != key || cells_[at].value == none) {
      if (cells_[at].value == none) return false;
      at = (at + 1) & mask_;
    }
    for (std::uint64_t next = (at + 1) & mask_; cells_[next].value != none;
         next = (next + 1) & mask_) {
      const std::uint64_t home = spread(cells_[next].key) & mask_;
      if (((next - home) & mask_) < ((next - at) & mask_)) continue;
      cells_[at] = cells_[next];
      at = next;
    }
    cells_[at].value = none;
    --size_;
    return true;
  }

 private:
  struct Cell {
    std::uint64_t key = 0;
    std::uint32_t value = none;
  };

  std::uint64_t most_;
  std::uint64_t mask_ = 0;
  std::uint64_t size_ = 0;
  std::vector<Cell> cells_;
};

}  // namespace sluice
