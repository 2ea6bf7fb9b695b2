// A hash table from numbers or ids that allocates only when it grows.
//
// Open addressing, linear probing, no tombstones: a removal moves what follows back. Values move
// when others are removed, so keep no pointers to them. Cost: O(1), for keys that were chosen
// without knowing the `Mix`; memory: twice the most entries, none before the first.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/ids.h"

namespace sluice {

template <typename Value, typename Key = std::uint64_t>
class Table {
 public:
  Table() = default;
  explicit Table(Mix mix) : mix_(mix) {}
  /// Before the first entry.
  void use(Mix mix) { mix_ = mix; }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool contains(const Key& key) const { return find(key) != nullptr; }

  Value* find(const Key& key) {
    if (size_ == 0) return nullptr;
    const std::size_t at = locate(key);
    return slots_[at].used ? &slots_[at].value : nullptr;
  }
  const Value* find(const Key& key) const {
    if (size_ == 0) return nullptr;
    const std::size_t at = locate(key);
    return slots_[at].used ? &slots_[at].value : nullptr;
  }
  /// The entry of the key, made empty when it is new.
  Value& operator[](const Key& key) {
    if (slots_.empty()) slots_.resize(mask_ + 1);
    std::size_t at = locate(key);
    if (slots_[at].used) return slots_[at].value;
    if (2 * size_ > mask_) {
      grow();
      at = locate(key);
    }
    ++size_;
    slots_[at].used = true;
    slots_[at].key = key;
    return slots_[at].value;
  }
  void erase(const Key& key) {
    if (size_ == 0) return;
    std::size_t hole = locate(key);
    if (!slots_[hole].used) return;
    --size_;
    for (std::size_t at = (hole + 1) & mask_; slots_[at].used; at = (at + 1) & mask_) {
      // Moves back unless its own place lies after the hole.
      if (((at - ideal_slot(slots_[at].key)) & mask_) < ((at - hole) & mask_)) continue;
      slots_[hole] = std::move(slots_[at]);
      hole = at;
    }
    slots_[hole] = Slot();
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Slot& slot : slots_)
      if (slot.used) visit(slot.key, slot.value);
  }
  void clear() {
    if (size_ == 0) return;
    for (Slot& slot : slots_) slot = Slot();
    size_ = 0;
  }

 private:
  struct Slot {
    Key key{};
    bool used = false;
    Value value{};
  };

  std::size_t ideal_slot(const Key& key) const { return spread(key, mix_) >> shift_; }
  std::size_t locate(const Key& key) const {
    std::size_t at = ideal_slot(key);
    while (slots_[at].used && slots_[at].key != key) at = (at + 1) & mask_;
    return at;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    --shift_;
    for (Slot& slot : old)
      if (slot.used) slots_[locate(slot.key)] = std::move(slot);
  }

  std::vector<Slot> slots_;  // a power of two, or none yet
  std::size_t mask_ = 3;
  unsigned shift_ = 62;  // leaves the bits of the mask
  std::size_t size_ = 0;
  Mix mix_;
};

}  // namespace sluice
