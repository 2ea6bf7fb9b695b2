// How an engine lets go of calls: cancelled, ended, given up, or lost with their home.
#include <algorithm>
#include <utility>

#include "graph/engine.h"

namespace sluice {

void Engine::cancel_call(const CallId& call, Effects& effects) {
  cancelled_[call] = true;
  for (const Record* record : records_of(call))
    if (record->state == State::running)
      effects.cancels.push_back({node_.id, {record->index, record->generation}});
}

void Engine::receive_cancel(Message& message, Effects& effects) {
  cancel_call(message.call, effects);
  splitter_.send_credit(message.credit, message.call, message.session, effects);
}

void Engine::raise_floor(Origin home, std::uint64_t number) {
  auto floor =
      std::ranges::find(floors_, home.machine, [](const Floor& one) { return one.home.machine; });
  if (floor == floors_.end()) floor = floors_.insert(floor, {home, 0});
  if (home.incarnation > floor->home.incarnation) *floor = {home, 0};
  if (home == floor->home) floor->number = std::max(floor->number, number);
  if (aborted_.empty()) return;
  std::vector<CallId> over;
  aborted_.for_each([&](const CallId& call, std::size_t) {
    if (is_below_floor(call)) over.push_back(call);
  });
  for (const CallId& call : over) aborted_.erase(call);
}

void Engine::receive_call_ended(const Message& message, Effects& effects) {
  raise_floor(message.call.home, message.floor);
  cancelled_.erase(message.call);
  if (!calls_.contains(message.call)) return;
  if (record_of(message.call).credit)
    effects.refuse(message.call, node_.id, "a call ended before its credit came back");
  recycle_call(message.call);
}

void Engine::forget(const std::vector<CallId>& given_up) {
  for (const CallId& call : given_up) aborted_[call] = 0;
}

void Engine::receive_abort(Message& message, Effects& effects) {
  drop_buckets([&](const CallId& call) { return call == message.call; });
  if (calls_.contains(message.call)) recycle_call(message.call);
  cancelled_.erase(message.call);
  std::size_t running = 0;
  for (Record* held : records_of(message.call)) {
    Record& record = *held;
    if (record.state == State::waiting) {
      free_record(record);
      continue;
    }
    ++running;
    splitter_.abandon(record.holding);
    effects.cancels.push_back({node_.id, {record.index, record.generation}});
  }
  aborted_[message.call] = running;
  if (running == 0) say_aborted(message.call, message.session, effects);
}

void Engine::say_aborted(const CallId& call, std::uint64_t session, Effects& effects) {
  Message* message = pools_.new_message(Message::Kind::aborted, entry_node, call, session);
  message->target = node_.id;
  effects.messages.push_back(message);
}

void Engine::home_lost(Origin home, Effects& effects) {
  // Nobody is left to be told, so nothing is answered: below the floor is all there is to keep.
  raise_floor({home.machine, home.incarnation + 1}, 0);
  const auto gone = [&](const CallId& call) {
    return call.home.machine == home.machine && call.home.incarnation <= home.incarnation;
  };
  drop(gone);
  for (Record* record : records_) {
    if (record->state == State::free || !gone(record->call)) continue;
    if (record->state == State::waiting) {
      free_record(*record);
      continue;
    }
    splitter_.abandon(record->holding);
    effects.cancels.push_back({node_.id, {record->index, record->generation}});
  }
}

template <typename Given>
void Engine::drop_buckets(Given is_given_up) {
  std::vector<ScopeOfCall> scopes;
  buckets_.for_each([&](const ScopeOfCall& key, const Bucket*) {
    if (is_given_up(key.call)) scopes.push_back(key);
  });
  for (const ScopeOfCall& key : scopes) recycle_bucket(key);
}

template <typename Given>
void Engine::drop(Given is_given_up) {
  drop_buckets(is_given_up);
  std::vector<CallId> calls;
  calls_.for_each([&](const CallId& call, const CallRecord*) {
    if (is_given_up(call)) calls.push_back(call);
  });
  for (const CallId& call : calls) recycle_call(call);
  calls.clear();
  cancelled_.for_each([&](const CallId& call, bool) {
    if (is_given_up(call)) calls.push_back(call);
  });
  for (const CallId& call : calls) cancelled_.erase(call);
}

}  // namespace sluice
