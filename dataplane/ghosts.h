// The keys of blocks that went lately, newest first, at most so many: what a policy remembers of
// them.
//
// Thread: one. Cost: constant time, no allocation after construction.
#pragma once

#include <algorithm>

#include "dataplane/key_table.h"
#include "dataplane/slot_lists.h"

namespace sluice {

class Ghosts {
 public:
  explicit Ghosts(std::uint32_t most)
      : most_(std::max(1u, most)), keys_(most_), lists_(most_, 2), table_(most_) {
    for (Slot at = 0; at < most_; ++at) lists_.push_back(free, at);
  }

  std::uint32_t size() const { return lists_.size(live); }
  bool contains(std::uint64_t key) const { return table_.find(key) != KeyTable::none; }
  /// For several keys before `erase` of each: their cells are fetched from memory at the same time.
  void prefetch(std::uint64_t key) const {
    if (size() > 0) table_.prefetch(key);
  }
  /// The oldest makes room when all places are taken.
  void push(std::uint64_t key) {
    erase(key);
    if (lists_.empty(free)) pop_oldest();
    const Slot at = lists_.front(free);
    keys_[at] = key;
    lists_.remove(at);
    lists_.push_front(live, at);
    table_.insert(key, at);
  }
  bool erase(std::uint64_t key) {
    const std::uint32_t at = table_.find(key);
    if (at == KeyTable::none) return false;
    table_.erase(key);
    lists_.remove(at);
    lists_.push_front(free, at);
    return true;
  }
  void pop_oldest() {
    if (lists_.empty(live)) return;
    erase(keys_[lists_.back(live)]);
    if (!lists_.empty(live)) table_.prefetch(keys_[lists_.back(live)]);  // the next one to go
  }

 private:
  enum { live, free };

  std::uint32_t most_;
  std::vector<std::uint64_t> keys_;
  SlotLists lists_;
  KeyTable table_;
};

}  // namespace sluice
