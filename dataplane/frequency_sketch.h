// Estimates how often each key was seen lately: a count-min sketch of four rows that is halved now
// and then.
//
// Thread: one. Bounds: a count saturates at 15. Source: Einziger, Friedman, Manes 2017 (TinyLFU).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/key_table.h"

namespace sluice {

class FrequencySketch {
 public:
  /// Halves all counts after every `10 * capacity` sightings.
  explicit FrequencySketch(std::uint32_t capacity) : period_(10ULL * std::max(1u, capacity)) {
    std::uint64_t width = 64;
    while (width < capacity) width *= 2;
    mask_ = width - 1;
    counts_.resize(4 * width);
  }

  void saw(std::uint64_t key) {
    for (std::uint64_t row = 0; row < 4; ++row) {
      std::uint8_t& count = counts_[at(row, key)];
      if (count < 15) ++count;
    }
    if (++seen_ < period_) return;
    seen_ = 0;
    for (std::uint8_t& count : counts_) count /= 2;
  }
  std::uint32_t estimate(std::uint64_t key) const {
    std::uint32_t least = 15;
    for (std::uint64_t row = 0; row < 4; ++row)
      least = std::min<std::uint32_t>(least, counts_[at(row, key)]);
    return least;
  }

 private:
  std::uint64_t at(std::uint64_t row, std::uint64_t key) const {
    return row * (mask_ + 1) + (spread(key + row * 0x9e3779b97f4a7c15ULL) & mask_);
  }

  std::uint64_t period_;
  std::uint64_t seen_ = 0;
  std::uint64_t mask_ = 0;
  std::vector<std::uint8_t> counts_;
};

}  // namespace sluice
