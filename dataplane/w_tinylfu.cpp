// W-TinyLFU: a window of the newest, and a main part which a block enters only if a sketch has seen
// it more often than the one that would go.
//
// Source: Einziger, Friedman, Manes 2017 (window: a hundredth; main: a fifth on probation).
#include <algorithm>
#include <ranges>

#include "dataplane/frequency_sketch.h"
#include "dataplane/slot_lists.h"

namespace sluice {
namespace {

class WTinyLfu final : public EvictionPolicy {
 public:
  explicit WTinyLfu(PoolSize size)
      : capacity_(size.capacity),
        window_most_(std::max(1u, size.capacity / 100)),
        protected_most_((size.capacity - window_most_) * 4 / 5),
        lists_(size.slots, 3),
        keys_(size.slots),
        sketch_(size.capacity) {}

  void visit(const Visit& visit) override {
    for (const VisitedBlock& block : std::views::reverse(visit.path)) {
      sketch_.saw(block.key);
      if (!lists_.in_any(block.slot)) {
        keys_[block.slot] = block.key;
        lists_.push_front(window, block.slot);
      } else if (lists_.list_of(block.slot) == window) {
        lists_.move_front(window, block.slot);
      } else {
        lists_.move_front(kept, block.slot);
        if (lists_.size(kept) > protected_most_) lists_.move_front(probation, lists_.back(kept));
      }
    }
    const auto resident = [&] {
      return lists_.size(window) + lists_.size(probation) + lists_.size(kept);
    };
    while (resident() <= capacity_ && lists_.size(window) > window_most_)
      lists_.move_front(probation, lists_.back(window));
  }
  Slot victim(Held held) override {
    while (lists_.size(window) > window_most_) {
      const Slot candidate = take_last(lists_, window, held);
      if (candidate == no_slot) break;
      Slot rival = take_last(lists_, probation, held);
      if (rival == no_slot) rival = take_last(lists_, kept, held);
      if (rival == no_slot) return candidate;
      const bool enters = sketch_.estimate(keys_[candidate]) > sketch_.estimate(keys_[rival]);
      const Slot stays = enters ? candidate : rival;
      if (enters)
        lists_.push_front(probation, stays);
      else
        lists_.push_back(probation, stays);
      return enters ? rival : candidate;
    }
    for (const std::uint32_t list :
         {std::uint32_t{probation}, std::uint32_t{kept}, std::uint32_t{window}}) {
      const Slot slot = take_last(lists_, list, held);
      if (slot != no_slot) return slot;
    }
    return no_slot;
  }
  void removed(Slot slot) override { lists_.remove(slot); }

 private:
  enum { window, probation, kept };

  std::uint32_t capacity_, window_most_, protected_most_;
  SlotLists lists_;
  std::vector<std::uint64_t> keys_;
  FrequencySketch sketch_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_w_tinylfu(PoolSize size) {
  return std::make_unique<WTinyLfu>(size);
}

}  // namespace sluice
