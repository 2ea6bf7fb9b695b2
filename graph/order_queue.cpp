#include "graph/order_queue.h"

#include <algorithm>

namespace sluice {

namespace {

constexpr auto later = [](const auto& a, const auto& b) { return a.begin > b.begin; };

}  // namespace

std::uint32_t OrderQueue::new_track() {
  if (!free_.empty()) {
    const std::uint32_t track = free_.back();
    free_.pop_back();
    return track;
  }
  tracks_.emplace_back();
  return static_cast<std::uint32_t>(tracks_.size() - 1);
}

void OrderQueue::drop(std::uint32_t track) {
  tracks_[track].frontier = 0;
  tracks_[track].heap.clear();
  free_.push_back(track);
}

std::uint32_t OrderQueue::track_of(const Scope& scope) {
  if (!scope.parent.scope) {
    if (scope.sequence == sequence_ && current_ != no_track) return current_;
    std::uint32_t* known = roots_.find(scope.sequence);
    const std::uint32_t track = known != nullptr ? *known : new_track();
    if (known == nullptr) roots_[scope.sequence] = track;
    if (scope.sequence == sequence_) current_ = track;
    return track;
  }
  if (const std::uint32_t* found = refined_.find(scope.id)) return *found;
  const std::uint32_t outer = track_of(*scope.parent.scope);
  const std::uint32_t track = new_track();
  refined_[scope.id] = track;
  tracks_[track].scope = scope.id;
  push(outer, {Entry::Kind::child, scope.parent.begin, scope.parent.width, track});
  return track;
}

void OrderQueue::push(std::uint32_t track, Entry entry) {
  auto& heap = tracks_[track].heap;
  heap.push_back(entry);
  std::ranges::push_heap(heap, later);
}

bool OrderQueue::insert(const Share& share, Entry::Kind kind, Item item) {
  if (share.width == 0) return true;
  if (!share.scope->parent.scope && share.scope->sequence < sequence_) return false;
  const std::uint32_t track = track_of(*share.scope);
  if (share.begin < tracks_[track].frontier) return false;
  if (kind == Entry::Kind::settled && share.begin == tracks_[track].frontier) {
    tracks_[track].frontier += share.width;
    return true;
  }
  if (kind == Entry::Kind::item) ++waiting_;
  push(track, {kind, share.begin, share.width, item});
  return true;
}

bool OrderQueue::pass(const Share& share) {
  // A refined share's track may not be there yet: the long way.
  if (share.scope->parent.scope || share.scope->sequence != sequence_) return false;
  Track& track = tracks_[current_ != no_track ? current_ : track_of(*share.scope)];
  if (share.begin != track.frontier) return false;
  track.frontier += share.width;
  return true;
}

OrderQueue::Item OrderQueue::pop_from(std::uint32_t track, bool keep_open) {
  while (!tracks_[track].heap.empty()) {
    auto& heap = tracks_[track].heap;
    const Entry first = heap.front();
    if (first.begin != tracks_[track].frontier) return no_item;
    if (first.kind == Entry::Kind::child) {
      const Item item = pop_from(first.index, keep_open);
      if (item != no_item || tracks_[first.index].frontier != share_whole) return item;
      refined_.erase(tracks_[first.index].scope);
      drop(first.index);
    }
    auto& mine = tracks_[track];
    std::ranges::pop_heap(mine.heap, later);
    mine.heap.pop_back();
    if (first.kind == Entry::Kind::item) {
      if (!keep_open) mine.frontier += first.width;
      --waiting_;
      return first.index;
    }
    mine.frontier += first.width;
  }
  return no_item;
}

OrderQueue::Item OrderQueue::pop_next(bool keep_open) {
  for (;;) {
    if (current_ == no_track) {
      const std::uint32_t* track = roots_.find(sequence_);
      if (track == nullptr) return no_item;
      current_ = *track;
    }
    Item item = no_item;
    if (!tracks_[current_].heap.empty()) item = pop_from(current_, keep_open);
    if (tracks_[current_].frontier == share_whole) {
      roots_.erase(sequence_);
      drop(current_);
      current_ = no_track;
      ++sequence_;
      if (item == no_item) continue;
    }
    return item;
  }
}

void OrderQueue::clear() {
  free_.clear();
  for (std::uint32_t track = 0; track < tracks_.size(); ++track) drop(track);
  roots_.clear();
  refined_.clear();
  sequence_ = 0;
  current_ = no_track;
  waiting_ = 0;
}

}  // namespace sluice
