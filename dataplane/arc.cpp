// ARC: two LRU lists, of what was used once and of what was used again; the memory of what left
// each moves the border between them.
//
// Source: Megiddo, Modha, FAST 2003.
#include <algorithm>
#include <ranges>

#include "dataplane/ghosts.h"

namespace sluice {
namespace {

class Arc final : public EvictionPolicy {
 public:
  explicit Arc(PoolSize size)
      : capacity_(size.capacity),
        lists_(size.slots, 2),
        keys_(size.slots),
        once_gone_(size.capacity),
        again_gone_(2 * size.capacity) {}

  void visit(const Visit& visit) override {
    for (const VisitedBlock& block : visit.path) {
      if (!block.fresh) continue;
      once_gone_.prefetch(block.key);
      again_gone_.prefetch(block.key);
    }
    for (const VisitedBlock& block : std::views::reverse(visit.path)) {
      if (lists_.in_any(block.slot)) {
        lists_.move_front(again, block.slot);
        continue;
      }
      keys_[block.slot] = block.key;
      lists_.push_front(adapt(block.key) ? again : once, block.slot);
    }
  }
  Slot victim(Held held) override {
    const bool first = !lists_.empty(once) && (lists_.size(once) > target_ || lists_.empty(again));
    for (const bool from_once : {first, !first}) {
      const Slot slot = take_last(lists_, from_once ? once : again, held);
      if (slot == no_slot) continue;
      remember(slot, from_once);
      return slot;
    }
    return no_slot;
  }
  void removed(Slot slot) override { lists_.remove(slot); }

 private:
  enum { once, again };

  /// Whether `key` left lately; if so the border moves towards the list that it left.
  bool adapt(std::uint64_t key) {
    const std::uint32_t b1 = once_gone_.size(), b2 = again_gone_.size();
    if (once_gone_.erase(key)) {
      target_ = std::min(capacity_, target_ + std::max(1u, b2 / std::max(1u, b1)));
      return true;
    }
    if (again_gone_.erase(key)) {
      target_ -= std::min(target_, std::max(1u, b1 / std::max(1u, b2)));
      return true;
    }
    return false;
  }
  /// At most `capacity` keys seen once, resident or gone, and twice as many in all.
  void remember(Slot slot, bool from_once) {
    (from_once ? once_gone_ : again_gone_).push(keys_[slot]);
    while (once_gone_.size() > 0 && lists_.size(once) + once_gone_.size() > capacity_)
      once_gone_.pop_oldest();
    while (again_gone_.size() > 0 &&
           lists_.size(once) + lists_.size(again) + once_gone_.size() + again_gone_.size() >
               2 * capacity_)
      again_gone_.pop_oldest();
  }

  std::uint32_t capacity_;
  std::uint32_t target_ = 0;  // of the list `once`
  SlotLists lists_;
  std::vector<std::uint64_t> keys_;
  Ghosts once_gone_, again_gone_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_arc(PoolSize size) { return std::make_unique<Arc>(size); }

}  // namespace sluice
