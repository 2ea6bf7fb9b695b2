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
      : slots_(slots), links_(slots + lists), size_(lists) {
    for (std::uint32_t at = slots; at < slots + lists; ++at) links_[at].next = links_[at].prev = at;
  }

  bool in_any(Slot slot) const { return links_[slot].list != none; }
  std::uint32_t list_of(Slot slot) const { return links_[slot].list; }
  std::uint32_t size(std::uint32_t list) const { return size_[list]; }
  bool empty(std::uint32_t list) const { return size_[list] == 0; }
  Slot front(std::uint32_t list) const { return end_of(links_[slots_ + list].next); }
  Slot back(std::uint32_t list) const { return end_of(links_[slots_ + list].prev); }
  /// The neighbour towards the front, or `no_slot`.
  Slot before(Slot slot) const { return end_of(links_[slot].prev); }

  /// Requires: the slot is in no list.
  void push_front(std::uint32_t list, Slot slot) { insert_after(slots_ + list, list, slot); }
  void push_back(std::uint32_t list, Slot slot) {
    insert_after(links_[slots_ + list].prev, list, slot);
  }
  /// Requires, as `move_front`: it is in a list.
  void remove(Slot slot) {
    Link& link = links_[slot];
    SLUICE_CHECK(link.list != none);
    links_[link.prev].next = link.next;
    links_[link.next].prev = link.prev;
    --size_[link.list];
    link.list = none;
  }
  void move_front(std::uint32_t list, Slot slot) {
    remove(slot);
    push_front(list, slot);
  }

 private:
  static constexpr std::uint32_t none = 0xffffffffu;

  struct Link {
    std::uint32_t next = 0, prev = 0, list = none;
  };

  Slot end_of(std::uint32_t at) const { return at < slots_ ? at : no_slot; }
  void insert_after(std::uint32_t at, std::uint32_t list, Slot slot) {
    SLUICE_CHECK(links_[slot].list == none);
    const std::uint32_t next = links_[at].next;
    links_[slot] = {next, at, list};
    links_[next].prev = slot;
    links_[at].next = slot;
    ++size_[list];
  }

  std::uint32_t slots_;
  std::vector<Link> links_;  // of the slots, then of the lists' ends
  std::vector<std::uint32_t> size_;
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
