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
    suspect,  // machine `index` counts as lost, though it is alive
    verdict,  // incarnation `number` of machine `index` is silent for a lease
    notice,   // `index` learns that incarnation `number` of machine `extra` is over
    fenced,   // machine `index` learns that its incarnation `number` is over
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
  /// Those that a machine has to catch up with come before all others of the same moment.
  static constexpr std::uint64_t tie_first = std::uint64_t{1} << 32;

  void add(Event event) {
    heap_.push_back(event);
    std::ranges::push_heap(heap_, later);
  }
  void add(Instant at, Event::Kind kind, std::uint32_t index, std::uint64_t number = 0,
           std::uint64_t extra = 0, Message* pointer = nullptr) {
    add({at, ++tie_, kind, index, number, extra, pointer});
  }
  bool empty() const { return heap_.empty(); }
  Event next() {
    std::ranges::pop_heap(heap_, later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static constexpr auto later = [](const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.tie > b.tie;
  };
  std::vector<Event> heap_;
  std::uint64_t tie_ = tie_first;
};

}  // namespace sluice::sim
