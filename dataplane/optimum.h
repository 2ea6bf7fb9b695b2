// The most hits that any choice of victims could have: all requests are known beforehand, and the
// block that is used again last goes first (at once, if never again).
//
// Source: Belady 1966, with bypass. A child is never used before its parent, so a chain loses its
// end first and the prefix rule costs nothing. Thread: one. Units: blocks. Cost: logarithmic in the
// capacity; keeps all requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace sluice {

class Optimum {
 public:
  /// The next request's blocks from root to leaf, distinct.
  void add(std::span<const std::uint64_t> keys);
  std::uint64_t blocks() const { return blocks_.size(); }
  /// Hits of all requests behind the first `before` with room for `capacity` blocks.
  std::uint64_t hits(std::uint32_t capacity, std::size_t before = 0) const;

 private:
  static constexpr std::uint32_t never = 0xffffffffu;

  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
  std::vector<std::uint32_t> blocks_;  // numbers of all requests, one behind the other
  std::vector<std::uint64_t> begins_{0};
};

}  // namespace sluice
