// Doubly linked lists over slot numbers: each slot is in one list of the set, or in none.
//
// Thread: one. Owns: two links and a list number for each slot.
// Cost: constant time, no allocation after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "dataplane/eviction.h"

namespace sluice {

class SlotLists {
 public:
  SlotLists(std::uint32_t slots, std::uint32_t lists)
      : slots_(slots),
        next_(slots + lists),
        prev_(slots + lists),
        list_(slots, none),
        size_(lists) {
    for (std::uint32_t at = slots; at < slots + lists; ++at) next_[at] = prev_[at] = at;
  }

  bool in_any(Slot slot) const { return list_[slot] != none; }
  std::uint32_t list_of(Slot slot) const { return list_[slot]; }
  std::uint32_t size(std::uint32_t list) const { return size_[list]; }
  bool empty(std::uint32_t list) const { return size_[list] == 0; }
  Slot front(std::uint32_t list) const { return end_of(next_[slots_ + list]); }
  Slot back(std::uint32_t list) const { return end_of(prev_[slots_ + list]); }
  /// The neighbour towards the front, or `no_slot`.
  Slot before(Slot slot) const { return end_of(prev_[slot]); }

  /// Requires: the slot is in no list.
  void push_front(std::uint32_t list, Slot slot) { insert_after(slots_ + list, list, slot); }
  void push_back(std::uint32_t list, Slot slot) { insert_after(prev_[slots_ + list], list, slot); }
  /// Requires, as `move_front`: it is in a list.
  void remove(Slot slot) {
    SLUICE_CHECK(list_[slot] != none);
    next_[prev_[slot]] = next_[slot];
    prev_[next_[slot]] = prev_[slot];
    --size_[list_[slot]];
    list_[slot] = none;
  }
  void move_front(std::uint32_t list, Slot slot) {
    remove(slot);
    push_front(list, slot);
  }

 private:
  static constexpr std::uint32_t none = 0xffffffffu;

  Slot end_of(std::uint32_t at) const { return at < slots_ ? at : no_slot; }
  void insert_after(std::uint32_t at, std::uint32_t list, Slot slot) {
    SLUICE_CHECK(list_[slot] == none);
    prev_[slot] = at;
    next_[slot] = next_[at];
    prev_[next_[at]] = slot;
    next_[at] = slot;
    list_[slot] = list;
    ++size_[list];
  }

  std::uint32_t slots_;
  std::vector<std::uint32_t> next_, prev_, list_, size_;
};

/// The last slot of `list` that is not held, taken out; `no_slot`: all are. Held ones move to the
/// front on the way.
inline Slot take_last(SlotLists& lists, std::uint32_t list, Held held) {
  for (std::uint32_t tries = lists.size(list); tries > 0; --tries) {
    const Slot slot = lists.back(list);
    if (held.empty() || held[slot] == 0) {
      lists.remove(slot);
      return slot;
    }
    lists.move_front(list, slot);
  }
  return no_slot;
}

}  // namespace sluice
