// S3-FIFO: a small queue for newcomers, a main one for what was used there more than once, and a
// memory of what left the small one, which is let into the main one when it comes back.
//
// Source: Yang et al., SOSP 2023 (small queue: a tenth).
#include <algorithm>
#include <ranges>

#include "dataplane/ghosts.h"

namespace sluice {
namespace {

class S3Fifo final : public EvictionPolicy {
 public:
  explicit S3Fifo(PoolSize size)
      : small_most_(std::max(1u, size.capacity / 10)),
        queues_(size.slots, 2),
        uses_(size.slots),
        keys_(size.slots),
        ghosts_(size.capacity - size.capacity / 10) {}

  void visit(const Visit& visit) override {
    for (const VisitedBlock& block : visit.path)
      if (block.fresh) ghosts_.prefetch(block.key);
    for (const VisitedBlock& block : std::views::reverse(visit.path)) {
      if (queues_.in_any(block.slot)) {
        uses_[block.slot] = std::min(3, uses_[block.slot] + 1);
        continue;
      }
      uses_[block.slot] = 0;
      keys_[block.slot] = block.key;
      queues_.push_front(ghosts_.erase(block.key) ? main : small, block.slot);
    }
  }
  Slot victim(Held held) override {
    // A slot is spared at most three times, moved once, and passed over while it is held.
    const std::uint32_t most = 6 * (queues_.size(small) + queues_.size(main));
    for (std::uint32_t tries = 0; tries < most; ++tries) {
      const bool from_small = queues_.size(small) > small_most_ || queues_.empty(main);
      const Slot slot = queues_.back(from_small ? small : main);
      if (!held.empty() && held[slot] != 0) {
        queues_.move_front(main, slot);
      } else if (from_small && uses_[slot] > 1) {
        uses_[slot] = 0;
        queues_.move_front(main, slot);
      } else if (!from_small && uses_[slot] > 0) {
        --uses_[slot];
        queues_.move_front(main, slot);
      } else {
        if (from_small) ghosts_.push(keys_[slot]);
        queues_.remove(slot);
        return slot;
      }
    }
    return take_any(held);
  }
  void removed(Slot slot) override { queues_.remove(slot); }

 private:
  enum { small, main };

  /// What is left when most of the main queue is held: the small queue.
  Slot take_any(Held held) {
    const Slot slot = take_last(queues_, small, held);
    return slot != no_slot ? slot : take_last(queues_, main, held);
  }

  std::uint32_t small_most_;
  SlotLists queues_;
  std::vector<int> uses_;
  std::vector<std::uint64_t> keys_;
  Ghosts ghosts_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_s3_fifo(PoolSize size) {
  return std::make_unique<S3Fifo>(size);
}

}  // namespace sluice
