// What happens when: the simulation's events in order of time, ties in the order given.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/coordinator.h"

namespace sluice::sim {

struct Event {
  enum class Kind : std::uint8_t {
    call,     // `index`: of the script
    message,  // `pointer`, to machine `index` as it was in incarnation `number`
    parcel,   // over link `index`: the message `number`, of connection `extra`
    applied,  // over link `index`, back: everything up to `number`, of connection `extra`
    step,     // of the running activation `index`, of generation `number`
    give_up,  // the caller of call `index`
    tick,
    break_link,
    pause,
    resume,
    kill,
    lost,  // the others notice that machine `index` is gone
    back,
  };
  Instant at{};
  std::uint64_t tie = 0;
  Kind kind = Kind::tick;
  std::uint32_t index = 0;
  std::uint64_t number = 0;
  std::uint64_t extra = 0;
  Message* pointer = nullptr;
};

class Agenda {
 public:
  void add(Event event) {
    heap_.push_back(event);
    std::ranges::push_heap(heap_, later);
  }
  bool empty() const { return heap_.empty(); }
  Event next() {
    std::ranges::pop_heap(heap_, later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }
  const std::vector<Event>& all() const { return heap_; }

 private:
  static constexpr auto later = [](const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.tie > b.tie;
  };
  std::vector<Event> heap_;
};

}  // namespace sluice::sim
