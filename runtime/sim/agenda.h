// What happens when: the simulation's events in order of time, ties in the order given.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/coordinator.h"

namespace sluice::sim {

struct Event {
  enum class Kind : std::uint8_t {
    call,     // `index`: of the script
    message,  // `pointer`, to machine `index` in incarnation `number`; the oracle's flight `extra`
    parcel,   // over link `index`: the message `number`, of connection `extra`
    applied,  // over link `index`, back: everything up to `number`, of connection `extra`
    hello,    // over link `index`: connection `extra` begins
    welcome,  // over link `index`, back: everything up to `number` was applied before
    step,     // of the running activation `index`, of generation `number`
    give_up,  // the caller of call `index`
    tick,
    break_link,
    cut,   // link `index` lets nothing through for `number` ns; `extra`: nor does the way back
    heal,  // link `index`
    pause,
    resume,
    kill,
    suspect,   // machine `index` counts as lost, though it is alive
    verdict,   // incarnation `number` of machine `index` is silent for a lease
    notice,    // `index` learns that incarnation `number` of machine `extra` is over
    fenced,    // machine `index` learns that its incarnation `number` is over
    forge,     // the hostile machine says something, perhaps to machine `index`
    stranger,  // `index` of what its calls have started on other machines ends
    expel,     // machine `index` learns that the hostile one is to be heard no more
  };
  Instant at{};
  std::uint64_t tie = 0;
  Kind kind = Kind::tick;
  std::uint32_t index = 0;
  std::uint64_t number = 0;
  std::uint64_t extra = 0;
  Message* pointer = nullptr;
};

/// A heap of what comes soon; what comes later lies unsorted in buckets by time, each twice as wide
/// as the one before, and is looked at when its time is near. So a million events that wait cost
/// memory, and no walk through a heap of a million. Nothing is added before what was taken last.
class Agenda {
 public:
  /// Those that a machine has to catch up with come before all others of the same moment.
  static constexpr std::uint64_t tie_first = std::uint64_t{1} << 32;

  void add(const Event& event) {
    ++size_;
    if (ticks(event.at) < heap_end_) return push(event);
    later_[bucket_of(event)].push_back(event);
  }
  void add(Instant at, Event::Kind kind, std::uint32_t index, std::uint64_t number = 0,
           std::uint64_t extra = 0, Message* pointer = nullptr) {
    add({at, ++tie_, kind, index, number, extra, pointer});
  }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  Event next() {
    while (heap_.empty()) open_bucket();
    std::ranges::pop_heap(heap_, after);
    const Event event = heap_.back();
    heap_.pop_back();
    --size_;
    // With many calls at once no message is in the caches: fetched while others are applied.
    for (std::size_t i = 0; i < std::min(heap_.size(), ahead); ++i)
      __builtin_prefetch(heap_[i].pointer);
    return event;
  }

 private:
  static constexpr std::size_t heap_wanted = 2048;  // events: what the nearest cache holds
  static constexpr std::size_t ahead = 7;           // events: the first three layers of the heap
  static constexpr auto after = [](const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.tie > b.tie;
  };
  static std::uint64_t ticks(Instant at) { return static_cast<std::uint64_t>(at.count()); }

  /// How many low bits of `base_` an event of this time leaves alone at most: those above agree.
  std::size_t bucket_of(const Event& event) const {
    return static_cast<std::size_t>(std::bit_width(ticks(event.at) ^ base_));
  }
  void push(const Event& event) {
    heap_.push_back(event);
    std::ranges::push_heap(heap_, after);
    if (heap_.size() <= heap_most_) return;
    spread(heap_, ticks(heap_.front().at));
    heap_most_ = ~std::size_t{0};  // the buckets stand on this base until the heap has run empty
  }
  /// Sorts what is nearest into buckets from `base` on; what comes before goes to the heap at once.
  void spread(std::vector<Event>& nearest, std::uint64_t base) {
    std::swap(nearest, spread_);
    heap_end_ = base_ = base;
    for (const Event& event : spread_) later_[bucket_of(event)].push_back(event);
    spread_.clear();
  }

  /// The nearest bucket becomes the heap, or, with too many events of different times, goes into
  /// the narrower ones before it, which are empty.
  void open_bucket() {
    std::size_t nearest = 0;
    while (later_[nearest].empty()) ++nearest;
    std::vector<Event>& bucket = later_[nearest];
    const std::uint64_t width = nearest == 0 ? 1 : std::uint64_t{1} << (nearest - 1);
    const std::uint64_t begin = ticks(bucket.front().at) & ~(width - 1);
    if (bucket.size() > heap_wanted && width > 1) return spread(bucket, begin);
    std::swap(heap_, bucket);
    std::ranges::make_heap(heap_, after);
    heap_end_ = begin + width;
    heap_most_ = 2 * (heap_.size() + heap_wanted);
  }

  std::vector<Event> heap_;  // all before `heap_end_`
  std::uint64_t heap_end_ = 0;
  std::size_t heap_most_ = 0;                 // events: then it is spread over buckets
  std::array<std::vector<Event>, 65> later_;  // by the highest bit in which the time is not `base_`
  std::uint64_t base_ = 0;
  std::vector<Event> spread_;  // what is being sorted into buckets; memory is kept
  std::size_t size_ = 0;
  std::uint64_t tie_ = tie_first;
};

}  // namespace sluice::sim
