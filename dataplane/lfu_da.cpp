// LFU with dynamic ageing: a block's rank is its number of uses plus the rank of the last one that
// went.
//
// Source: Arlitt et al. 2000. Cost: logarithmic in the number of slots.
#include <algorithm>
#include <ranges>

#include "dataplane/eviction.h"

namespace sluice {
namespace {

class LfuDa final : public EvictionPolicy {
 public:
  explicit LfuDa(PoolSize size) : slots_(size.slots) { heap_.reserve(size.slots); }

  void visit(const Visit& visit) override {
    for (const VisitedBlock& block : std::views::reverse(visit.path)) {
      State& state = slots_[block.slot];
      if (state.at == nowhere) {
        state.uses = 0;
        place(block.slot, static_cast<std::uint32_t>(heap_.size()), true);
      }
      rank(block.slot);
    }
  }
  Slot victim(Held held) override {
    if (heap_.empty()) return no_slot;
    const bool first = held.empty() || held[heap_[0]] == 0;
    const Slot slot = first ? heap_[0] : least_free(held);
    if (slot == no_slot) return no_slot;
    age_ = std::max(age_, slots_[slot].rank);
    removed(slot);
    return slot;
  }
  void removed(Slot slot) override {
    const std::uint32_t at = slots_[slot].at;
    const Slot last = heap_.back();
    heap_.pop_back();
    slots_[slot].at = nowhere;
    if (last == slot) return;
    place(last, at, false);
    rise(at);
    sink(slots_[last].at);
  }

 private:
  static constexpr std::uint32_t nowhere = 0xffffffffu;
  struct State {
    std::uint64_t rank = 0, stamp = 0, uses = 0;
    std::uint32_t at = nowhere;
  };

  bool less(Slot a, Slot b) const {
    const State &x = slots_[a], &y = slots_[b];
    return x.rank != y.rank ? x.rank < y.rank : x.stamp < y.stamp;
  }
  void rank(Slot slot) {
    State& state = slots_[slot];
    state.rank = age_ + ++state.uses;
    state.stamp = ++clock_;
    rise(state.at);
    sink(state.at);
  }
  void place(Slot slot, std::uint32_t at, bool grow) {
    if (grow) heap_.push_back(slot);
    heap_[at] = slot;
    slots_[slot].at = at;
  }
  void rise(std::uint32_t at) {
    while (at > 0 && less(heap_[at], heap_[(at - 1) / 2])) {
      exchange(at, (at - 1) / 2);
      at = (at - 1) / 2;
    }
  }
  void sink(std::uint32_t at) {
    while (2 * at + 1 < heap_.size()) {
      const std::uint32_t child = slots_[least_child(at)].at;
      if (!less(heap_[child], heap_[at])) return;
      exchange(at, child);
      at = child;
    }
  }
  Slot least_child(std::uint32_t at) const {
    const std::uint32_t left = 2 * at + 1, right = left + 1;
    return right < heap_.size() && less(heap_[right], heap_[left]) ? heap_[right] : heap_[left];
  }
  void exchange(std::uint32_t a, std::uint32_t b) {
    const Slot x = heap_[a], y = heap_[b];
    place(x, b, false);
    place(y, a, false);
  }
  /// By looking at all, for the rare case that the least one is held.
  Slot least_free(Held held) const {
    Slot best = no_slot;
    for (const Slot slot : heap_)
      if (held[slot] == 0 && (best == no_slot || less(slot, best))) best = slot;
    return best;
  }

  std::vector<State> slots_;
  std::vector<Slot> heap_;
  std::uint64_t age_ = 0, clock_ = 0;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lfu_da(PoolSize size) { return std::make_unique<LfuDa>(size); }

}  // namespace sluice
