// How good the choice of pages to keep was lately, beside the best that could have been made: of a
// sample of blocks, how many were there when they were asked for, and how many would have been.
//
// A sample is the blocks whose key falls into it, beside a pool made smaller by the same ratio, as
// in chosen.cpp. The optimum begins with an empty pool, so only the later half of what is
// remembered is counted, and of a block that came before all of it the optimum knows nothing.
// Thread: one. Cost: a test of each block; `look` sorts a few thousand, a millisecond or two.
// Source: regret against the optimum of Belady 1966; samples after Waldspurger et al., ATC 2017.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "dataplane/eviction.h"

namespace sluice {

/// Of blocks of the sample; hits <= optimum <= blocks.
struct HitWindow {
  std::uint64_t blocks = 0;   // that were asked for
  std::uint64_t hits = 0;     // were there
  std::uint64_t optimum = 0;  // would have been, had each page been kept that was asked for next
};

class HitWatch {
 public:
  /// The pool's blocks.
  explicit HitWatch(std::uint32_t capacity);

  void visit(std::span<const VisitedBlock> path);
  HitWindow look() const;

 private:
  struct Asked {
    std::vector<std::uint64_t> keys;  // from root to leaf
    std::uint64_t hits = 0;
  };

  std::uint32_t sample_;    // one block of so many
  std::uint32_t capacity_;  // of the smaller pool
  std::deque<Asked> asked_;
  std::size_t blocks_ = 0;  // in all of them
};

}  // namespace sluice
