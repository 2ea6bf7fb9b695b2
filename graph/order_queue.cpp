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
  entries_ -= tracks_[track].heap.size();
  tracks_[track].frontier = 0;
  tracks_[track].heap.clear();
  tracks_[track].outer = no_track;
  free_.push_back(track);
}

std::uint32_t OrderQueue::root_track(std::uint64_t sequence) {
  if (sequence < sequence_) return no_track;
  if (sequence == sequence_ && current_ != no_track) return current_;
  std::uint32_t* known = roots_.find(sequence);
  if (known == nullptr && roots_.size() >= waiting_max_) return no_track;
  const std::uint32_t track = known != nullptr ? *known : new_track();
  if (known == nullptr) roots_[sequence] = track;
  if (sequence == sequence_) hand_ = current_ = track;
  return track;
}

std::uint32_t OrderQueue::new_child(std::uint32_t outer, const Scope& finer) {
  if (finer.parent.begin < tracks_[outer].frontier) return no_track;
  const std::uint32_t track = new_track();
  refined_[finer.id] = track;
  Track& made = tracks_[track];
  made.scope = finer.id;
  made.outer = outer;
  made.begin = finer.parent.begin;
  made.width = finer.parent.width;
  push(outer, {Entry::Kind::child, made.begin, made.width, track});
  return track;
}

std::uint32_t OrderQueue::track_of(const Scope& scope) {
  missing_.clear();
  std::uint32_t track = no_track;
  const Scope* at = &scope;
  for (; at->parent.scope; at = at->parent.scope.get()) {
    if (const std::uint32_t* found = refined_.find(at->id)) {
      track = *found;
      break;
    }
    missing_.push_back(at);
  }
  if (track == no_track) track = root_track(at->sequence);
  for (; track != no_track && !missing_.empty(); missing_.pop_back())
    track = new_child(track, *missing_.back());
  return track;
}

void OrderQueue::push(std::uint32_t track, Entry entry) {
  auto& heap = tracks_[track].heap;
  heap.push_back(entry);
  std::ranges::push_heap(heap, later);
  ++entries_;
}

bool OrderQueue::insert(const Share& share, Entry::Kind kind, Item item) {
  constexpr std::string_view twice = "a position was settled twice";
  constexpr std::string_view full = "too many positions wait for an earlier one";
  if (share.width == 0) return true;
  if (broken_) return fail(twice);
  if (entries_ >= waiting_max_ && share.scope->parent.scope) return fail(full);
  const std::uint32_t track = track_of(*share.scope);
  if (track == no_track) return fail(roots_.size() < waiting_max_ ? twice : full);
  if (share.begin < tracks_[track].frontier) return fail(twice);
  if (kind == Entry::Kind::settled && share.begin == tracks_[track].frontier) {
    tracks_[track].frontier += share.width;
    return true;
  }
  if (entries_ >= waiting_max_) return fail(full);
  if (kind == Entry::Kind::item) ++waiting_;
  push(track, {kind, share.begin, share.width, item});
  return true;
}

bool OrderQueue::pass(const Share& share) {
  // A refined share's track may not be there yet: the long way.
  if (share.scope->parent.scope || share.scope->sequence != sequence_) return false;
  const std::uint32_t at = current_ != no_track ? current_ : root_track(sequence_);
  if (at == no_track || broken_) return false;  // `put` says why
  Track& track = tracks_[at];
  if (share.begin != track.frontier) return false;
  track.frontier += share.width;
  return true;
}

void OrderQueue::skip(const Share& share, Item item) {
  const std::uint32_t track = track_of(*share.scope);
  if (track == no_track) return;
  for (Entry& entry : tracks_[track].heap) {
    if (entry.kind != Entry::Kind::item || entry.index != item) continue;
    entry.kind = Entry::Kind::settled;
    --waiting_;
    return;
  }
}

void OrderQueue::leave_complete() {
  while (hand_ != no_track && tracks_[hand_].frontier == share_whole) {
    const Track& done = tracks_[hand_];
    const std::uint32_t over = hand_;
    broken_ = broken_ || !done.heap.empty();
    hand_ = done.outer;
    if (hand_ == no_track) {
      roots_.erase(sequence_++);
      current_ = no_track;
    } else {
      const std::uint32_t* known = refined_.find(done.scope);
      if (known != nullptr && *known == over) refined_.erase(done.scope);
      broken_ = broken_ || tracks_[hand_].frontier != done.begin;
      if (!broken_) tracks_[hand_].frontier += done.width;
    }
    drop(over);
  }
}

bool OrderQueue::take_first(Entry& first) {
  Track& track = tracks_[hand_];
  if (track.heap.empty()) return false;
  first = track.heap.front();
  if (first.begin > track.frontier) return false;
  if (first.begin < track.frontier) {
    broken_ = true;
    return false;
  }
  std::ranges::pop_heap(track.heap, later);
  track.heap.pop_back();
  --entries_;
  return true;
}

OrderQueue::Item OrderQueue::pop_next(bool keep_open) {
  for (;;) {
    leave_complete();
    if (broken_) return no_item;
    if (hand_ == no_track) {
      const std::uint32_t* track = roots_.find(sequence_);
      if (track == nullptr) return no_item;
      hand_ = current_ = *track;
      continue;
    }
    Entry first;
    if (!take_first(first)) return no_item;
    if (first.kind == Entry::Kind::child) {
      hand_ = first.index;
      continue;
    }
    const bool item = first.kind == Entry::Kind::item;
    if (!item || !keep_open) tracks_[hand_].frontier += first.width;
    if (!item) continue;
    --waiting_;
    leave_complete();
    return first.index;
  }
}

void OrderQueue::clear() {
  free_.clear();
  for (std::uint32_t track = 0; track < tracks_.size(); ++track) drop(track);
  roots_.clear();
  refined_.clear();
  sequence_ = 0;
  hand_ = current_ = no_track;
  waiting_ = entries_ = 0;
  broken_ = false;
  problem_ = {};
}

}  // namespace sluice
