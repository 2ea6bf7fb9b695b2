// Chosen: several policies see all visits, the one whose sampled shadow hits most gives the
// victims.
//
// A shadow is a replay of the blocks whose key falls into a sample, in a pool made smaller by the
// same ratio (a sample of a prefix forest is one too). A challenger must lead clearly to take over.
// Source: ours; sampled miniatures after Waldspurger et al., ATC 2017.
#include <algorithm>
#include <array>
#include <bit>

#include "dataplane/replay.h"

namespace sluice {
namespace {

constexpr std::uint32_t shadow_blocks = 256;  // a shadow's capacity, about
constexpr double lead = 1.08;

class Chosen final : public EvictionPolicy {
 public:
  explicit Chosen(PoolSize size)
      : sample_(std::bit_floor(std::max(1u, size.capacity / shadow_blocks))) {
    constexpr std::array makers = {make_learned, make_lru, make_s3_fifo, make_arc};
    const PoolSize small = {std::max(1u, size.capacity / sample_),
                            std::max(1u, size.capacity / sample_) + size.slots - size.capacity};
    for (const auto make : makers) rivals_.push_back({make(size), Replay(small, make(small)), 0});
    window_ = 8ULL * small.capacity;
    sampled_.reserve(size.slots);
  }

  void visit(const Visit& visit) override {
    for (Rival& rival : rivals_) rival.live->visit(visit);
    sampled_.clear();
    if (!visit.is_use) return;
    for (const VisitedBlock& block : visit.path)
      if ((spread(block.key ^ 0x5a5a5a5aULL) & (sample_ - 1)) == 0) sampled_.push_back(block.key);
    if (sampled_.empty()) return;
    for (Rival& rival : rivals_) rival.hits += rival.shadow.request(visit.now_ms, sampled_);
    seen_ += sampled_.size();
    if (seen_ >= window_) judge();
  }
  Slot victim(Held held) override {
    const Slot slot = rivals_[ruler_].live->victim(held);
    if (slot == no_slot) return no_slot;
    for (std::size_t i = 0; i < rivals_.size(); ++i)
      if (i != ruler_) rivals_[i].live->removed(slot);
    return slot;
  }
  void removed(Slot slot) override {
    for (Rival& rival : rivals_) rival.live->removed(slot);
  }

 private:
  struct Rival {
    std::unique_ptr<EvictionPolicy> live;
    Replay shadow;
    double hits;  // of the shadow, halved in each window
  };

  void judge() {
    seen_ = 0;
    for (std::size_t i = 0; i < rivals_.size(); ++i)
      if (rivals_[i].hits > lead * rivals_[ruler_].hits + 32) ruler_ = i;
    for (Rival& rival : rivals_) rival.hits /= 2;
  }

  std::uint32_t sample_;  // one block of so many
  std::vector<Rival> rivals_;
  std::size_t ruler_ = 0;
  std::uint64_t window_ = 0, seen_ = 0;
  std::vector<std::uint64_t> sampled_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_chosen(PoolSize size) {
  return std::make_unique<Chosen>(size);
}

}  // namespace sluice
