#include "dataplane/replay.h"

namespace sluice {

Replay::Replay(PoolSize size, std::unique_ptr<EvictionPolicy> policy)
    : size_(size), policy_(std::move(policy)), where_(size.slots), keys_(size.slots) {
  free_.reserve(size.slots);
  for (Slot slot = size.slots; slot > 0; --slot) free_.push_back(slot - 1);
  path_.reserve(size.slots - size.capacity);
}

std::uint32_t Replay::request(std::uint64_t now_ms, std::span<const std::uint64_t> keys) {
  SLUICE_CHECK(keys.size() <= size_.slots - size_.capacity);
  std::uint32_t hits = 0;
  path_.clear();
  for (const std::uint64_t key : keys) where_.prefetch(key);
  for (const std::uint64_t key : keys) {
    Slot slot = where_.find(key);
    const bool fresh = slot == KeyTable::none;
    if (!fresh && hits == path_.size()) ++hits;
    if (fresh) {
      slot = free_.back();
      free_.pop_back();
      keys_[slot] = key;
      where_.insert(key, slot);
      ++resident_;
    }
    path_.push_back({slot, key, fresh});
  }
  policy_->visit({now_ms, path_});
  const std::size_t free_before = free_.size();
  for (; resident_ > size_.capacity; --resident_) {
    const Slot slot = policy_->victim({});
    SLUICE_CHECK(slot != no_slot);
    where_.prefetch(keys_[slot]);
    free_.push_back(slot);
  }
  for (std::size_t at = free_before; at < free_.size(); ++at)  // each is fetched beside the others
    SLUICE_CHECK(where_.erase(keys_[free_[at]]));
  return hits;
}

}  // namespace sluice
