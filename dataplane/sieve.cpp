// SIEVE: a queue in order of arrival; a hand walks from its old end and spares, once, what was
// used.
//
// Source: Zhang et al., NSDI 2024.
#include <ranges>

#include "dataplane/slot_lists.h"

namespace sluice {
namespace {

class Sieve final : public EvictionPolicy {
 public:
  explicit Sieve(PoolSize size) : order_(size.slots, 1), used_(size.slots) {}

  void visit(const Visit& visit) override {
    for (const VisitedBlock& block : std::views::reverse(visit.path)) {
      if (order_.in_any(block.slot)) {
        used_[block.slot] = 1;
      } else {
        used_[block.slot] = 0;
        order_.push_front(0, block.slot);
      }
    }
  }
  Slot victim(Held held) override {
    for (std::uint32_t tries = 2 * order_.size(0); tries > 0; --tries) {
      if (hand_ == no_slot) hand_ = order_.back(0);
      const Slot slot = hand_;
      hand_ = order_.before(slot);
      const bool is_held = !held.empty() && held[slot] != 0;
      if (!is_held && used_[slot] == 0) {
        order_.remove(slot);
        return slot;
      }
      used_[slot] = 0;
    }
    return no_slot;
  }
  void removed(Slot slot) override {
    if (hand_ == slot) hand_ = order_.before(slot);
    order_.remove(slot);
  }

 private:
  SlotLists order_;
  std::vector<std::uint8_t> used_;
  Slot hand_ = no_slot;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_sieve(PoolSize size) { return std::make_unique<Sieve>(size); }

}  // namespace sluice
