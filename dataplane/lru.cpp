// Least recently used goes first. A visit's root counts as used last, so leaves go before it.
#include <ranges>

#include "dataplane/slot_lists.h"

namespace sluice {
namespace {

class Lru final : public EvictionPolicy {
 public:
  explicit Lru(PoolSize size) : order_(size.slots, 1) {}

  void visit(const Visit& visit) override {
    for (const VisitedBlock& block : std::views::reverse(visit.path)) {
      if (order_.in_any(block.slot)) order_.remove(block.slot);
      order_.push_front(0, block.slot);
    }
  }
  Slot victim(Held held) override { return take_last(order_, 0, held); }
  void removed(Slot slot) override { order_.remove(slot); }

 private:
  SlotLists order_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru(PoolSize size) { return std::make_unique<Lru>(size); }

}  // namespace sluice
