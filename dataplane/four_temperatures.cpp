// Four temperatures: LRU lists for cold, warm, warmer and hot blocks by a decaying count of their
// uses; the coldest list that has one gives the victim.
//
// Source: Omni-Flow, section 4.1.2. It names no thresholds; ours are 2, 4 and 8 uses.
#include <ranges>

#include "dataplane/frequency_sketch.h"
#include "dataplane/slot_lists.h"

namespace sluice {
namespace {

class FourTemperatures final : public EvictionPolicy {
 public:
  explicit FourTemperatures(PoolSize size) : lists_(size.slots, 4), sketch_(size.capacity) {}

  void visit(const Visit& visit) override {
    for (const VisitedBlock& block : std::views::reverse(visit.path)) {
      sketch_.saw(block.key);
      const std::uint32_t uses = sketch_.estimate(block.key);
      if (lists_.in_any(block.slot)) lists_.remove(block.slot);
      lists_.push_front(uses < 2 ? 0 : uses < 4 ? 1 : uses < 8 ? 2 : 3, block.slot);
    }
  }
  Slot victim(Held held) override {
    for (std::uint32_t list = 0; list < 4; ++list) {
      const Slot slot = take_last(lists_, list, held);
      if (slot != no_slot) return slot;
    }
    return no_slot;
  }
  void removed(Slot slot) override { lists_.remove(slot); }

 private:
  SlotLists lists_;
  FrequencySketch sketch_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_four_temperatures(PoolSize size) {
  return std::make_unique<FourTemperatures>(size);
}

}  // namespace sluice
