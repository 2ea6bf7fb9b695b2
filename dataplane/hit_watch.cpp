#include "dataplane/hit_watch.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "dataplane/key_table.h"
#include "dataplane/optimum.h"

namespace sluice {

namespace {

constexpr std::uint32_t small_blocks = 256;  // of the smaller pool, about
constexpr std::size_t blocks_most = 4096;    // that are remembered, and one request more

}  // namespace

HitWatch::HitWatch(std::uint32_t capacity)
    : sample_(std::bit_floor(std::max(1U, capacity / small_blocks))),
      capacity_(std::max(1U, capacity / sample_)) {}

void HitWatch::visit(std::span<const VisitedBlock> path) {
  Asked asked;
  for (const VisitedBlock& block : path) {
    if ((spread(block.key ^ 0xa5a5a5a5ULL) & (sample_ - 1)) != 0) continue;
    asked.keys.push_back(block.key);
    asked.hits += block.fresh ? 0 : 1;
  }
  if (asked.keys.empty()) return;
  blocks_ += asked.keys.size();
  asked_.push_back(std::move(asked));
  while (blocks_ - asked_.front().keys.size() >= blocks_most) {
    blocks_ -= asked_.front().keys.size();
    asked_.pop_front();
  }
}

HitWindow HitWatch::look() const {
  HitWindow window;
  Optimum optimum;
  std::size_t before = 0;
  for (const Asked& asked : asked_) {
    const bool counts = 2 * optimum.blocks() >= blocks_;
    optimum.add(asked.keys);
    if (!counts) {
      ++before;
      continue;
    }
    window.blocks += asked.keys.size();
    window.hits += asked.hits;
  }
  // What was there from before all of it is ours alone.
  window.optimum = std::max(window.hits, optimum.hits(capacity_, before));
  return window;
}

}  // namespace sluice
