// How a node with `on_full: drop_oldest` lets go of what waits for it.
//
// Of each call it keeps what waits and may still be dropped. What is dropped takes its turn and
// ends at once, like an activation whose inputs are too old: its shares are settled, so whoever
// waits for what it would have made goes on, and the caller is warned.
#include <algorithm>
#include <bit>

#include "graph/engine.h"

namespace sluice {

namespace {

/// In the order of a session node.
bool stands_before(const Share& a, const Share& b) {
  const std::uint64_t first = outermost(a).scope->sequence;
  const std::uint64_t second = outermost(b).scope->sequence;
  return first != second ? first < second : is_before(a, b);
}

}  // namespace

void Engine::line_up(CallRecord& call, Record& record, Shares& shares, Effects& effects) {
  if (call.running < node_.at_once()) {
    call.running += start(record, shares, 0, effects);
    return;
  }
  record.shares.take(shares);
  call.waiting.push_back({&record, {}});
  if (call.waiting.size() > node_.queue_max) drop_oldest(call, effects);
}

void Engine::pump_line(CallRecord& call, Effects& effects) {
  while (call.running < node_.at_once() && !call.waiting.empty()) {
    Record& next = *call.waiting.front().record;
    call.waiting.erase(call.waiting.begin());
    call.running += start(next, next.shares, 0, effects);
  }
}

void Engine::leave_line(CallRecord& call, const Record& record) {
  std::erase_if(call.waiting, [&](const Waiting& one) { return one.record == &record; });
}

void Engine::note_not_started(const Record& record, bool dropped, Effects& effects) const {
  if (!effects.is_watched) return;
  const Frame& frame = *record.arrivals.front().frame;
  const auto output = static_cast<std::size_t>(std::countr_zero(frame.mask));
  effects.not_started.push_back(
      {node_.id, record.call, frame.mask != 0 ? frame.values[output] : PayloadRef(), dropped});
}

void Engine::drop_oldest(CallRecord& call, Effects& effects) {
  while (call.waiting.size() > node_.queue_max) {
    auto oldest = call.waiting.begin();
    if (node_.order != none)
      oldest = std::ranges::min_element(call.waiting, stands_before, &Waiting::place);
    Record& record = *oldest->record;
    if (node_.order != none) call.queue.skip(oldest->place, record.index);
    call.waiting.erase(oldest);
    splitter_.begin(record.holding, record.shares, record.credit, record.call, record.session,
                    node_.order == none ? 0 : call.released++);
    note_not_started(record, true, effects);
    warn_stopped(record,
                 node_.name +
                     ": inputs that waited were dropped for newer ones (on_full: drop_oldest, " +
                     "queue: " + std::to_string(node_.queue_max) + ")",
                 effects);
    splitter_.end(record.holding, nullptr, effects);
    free_record(record);
  }
}

}  // namespace sluice
