#include "graph/home.h"

#include <utility>

#include "base/check.h"

namespace sluice {

void Home::Outstanding::add(std::uint64_t amount) {
  rest += amount;
  while (rest >= share_whole) {
    rest -= share_whole;
    ++wholes;
  }
}

void Home::Outstanding::subtract(std::uint64_t amount) {
  while (rest < amount) {
    SLUICE_CHECK(wholes > 0, "more credit came home than went out");
    --wholes;
    rest += share_whole;
  }
  rest -= amount;
}

Home::Home(const Plan& plan, Pools& pools)
    : plan_(plan), pools_(pools), splitter_(plan, entry_node, pools) {}

CallId Home::call(std::uint64_t session, std::vector<PayloadRef> inputs, Instant now,
                  Effects& effects) {
  const CallId id = next_call_++;
  CallRecord& call = calls_[id];
  call.session = session;
  call.inputs = std::move(inputs);
  call.outputs.resize(plan_.outputs.size());
  call.deadline = now + std::chrono::duration_cast<Instant>(plan_.limits.deadline);
  std::deque<CallId>& queue = sessions_[session];
  queue.push_back(id);
  if (plan_.calls == CallMode::overlap || queue.size() == 1) start(id, effects);
  return id;
}

void Home::start(CallId id, Effects& effects) {
  CallRecord& call = calls_.at(id);
  call.started = true;
  call.outstanding.add(share_whole);
  Holding holding;
  Shares nothing;
  splitter_.begin(holding, nothing, share_whole, id, call.session, 0);
  Frame* frame = pools_.new_frame(entry_node, plan_.inputs.size());
  for (std::size_t i = 0; i < call.inputs.size() && i < plan_.inputs.size(); ++i) {
    if (!call.inputs[i]) continue;
    frame->values[i] = std::move(call.inputs[i]);
    frame->mask |= std::uint64_t{1} << i;
  }
  frame->iterations.assign(plan_.loop_nodes, 0);
  splitter_.yield(holding, FrameRef(frame), true, effects);
  splitter_.end(holding, nullptr, effects);
}

void Home::receive(Message& message, Effects& effects) {
  const auto it = calls_.find(message.call);
  SLUICE_CHECK(it != calls_.end(), "a message came for a call that has ended");
  CallRecord& call = it->second;
  switch (message.kind) {
    case Message::Kind::frame: {
      const Edge& edge = plan_.edges[message.target];
      OutputRecord& output = call.outputs[edge.group];
      for (const FieldMap& map : edge.fields) {
        if ((message.frame->mask >> map.from & 1U) == 0) continue;
        std::uint32_t item = static_cast<std::uint32_t>(output.waiting.size());
        if (output.free.empty()) {
          output.waiting.emplace_back();
        } else {
          item = output.free.back();
          output.free.pop_back();
        }
        output.waiting[item] = message.frame->values[map.from];
        Share part = message.shares[0];
        // Several fields of one frame stand one after the other within its share.
        if (&map != &edge.fields.back()) part.width = 1;
        message.shares[0].begin += part.width;
        message.shares[0].width -= part.width;
        output.line.put(part, item);
      }
      output.line.settle(message.shares[0]);
      deliver(message.call, call, edge.group, effects);
      break;
    }
    case Message::Kind::settled: {
      const Collector& collector = plan_.collectors[message.target];
      call.outputs[collector.group].line.settle(message.shares[0]);
      deliver(message.call, call, collector.group, effects);
      break;
    }
    case Message::Kind::credit:
      call.outstanding.add(message.minted);
      for (std::string& warning : message.warnings) call.warnings.push_back(std::move(warning));
      if (message.failure)
        fail(message.call, call, std::move(*message.failure), plan_.cancel_on_error, effects);
      break;
    case Message::Kind::cancel:
    case Message::Kind::call_ended: SLUICE_CHECK(false, "this message goes to nodes");
  }
  call.outstanding.subtract(message.credit);
  finish_if_done(message.call, effects);
}

void Home::deliver(CallId id, CallRecord& call, std::uint16_t index, Effects& effects) {
  OutputRecord& output = call.outputs[index];
  while (const std::optional<Line::Item> item = output.line.pop(false)) {
    PayloadRef value = std::move(output.waiting[*item]);
    output.free.push_back(*item);
    if (call.cancelled) continue;
    if (++call.delivered > plan_.limits.frames) {
      fail(id, call,
           {entry_node,
            {ErrorCode::exhausted, "the call reached the limit of " +
                                       std::to_string(plan_.limits.frames) +
                                       " output frames (limits: frames)"}},
           true, effects);
      continue;
    }
    effects.deliveries.push_back({id, index, std::move(value)});
  }
}

void Home::fail(CallId id, CallRecord& call, Failure failure, bool cancel, Effects& effects) {
  if (!call.failure) call.failure = std::make_unique<Failure>(std::move(failure));
  if (cancel) spread_cancel(id, call, effects);
}

void Home::spread_cancel(CallId id, CallRecord& call, Effects& effects) {
  if (call.cancelled) return;
  call.cancelled = true;
  for (const PlanNode& node : plan_.nodes) {
    if (node.id == entry_node) continue;
    Message* message = pools_.new_message(Message::Kind::cancel, node.id, id, call.session);
    message->credit = 1;
    call.outstanding.add(1);
    effects.messages.push_back(message);
  }
}

void Home::cancel(CallId id, Effects& effects) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  fail(id, it->second, {entry_node, {ErrorCode::cancelled, "the caller cancelled the call"}},
       it->second.started, effects);
  finish_if_done(id, effects);
}

void Home::tick(Instant now, Effects& effects) {
  std::vector<CallId> late;
  for (const auto& [id, call] : calls_)
    if (call.deadline <= now && !call.failure) late.push_back(id);
  for (const CallId id : late) {
    CallRecord& call = calls_.at(id);
    fail(id, call,
         {entry_node,
          {ErrorCode::deadline, "the call did not end within its deadline of " +
                                    std::to_string(plan_.limits.deadline.count()) +
                                    " ms (limits: deadline)"}},
         call.started, effects);
    finish_if_done(id, effects);
  }
}

Instant Home::next_deadline() const {
  Instant next = Instant::max();
  for (const auto& [id, call] : calls_)
    if (!call.failure && call.deadline < next) next = call.deadline;
  return next;
}

void Home::finish_if_done(CallId id, Effects& effects) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  CallRecord& call = it->second;
  if (!call.outstanding.zero() || (!call.started && !call.failure)) return;
  for (const OutputRecord& output : call.outputs)
    SLUICE_CHECK(output.line.empty(), "a call ended before its outputs were delivered");
  for (const PlanNode& node : plan_.nodes)
    if (call.started && node.id != entry_node)
      effects.messages.push_back(
          pools_.new_message(Message::Kind::call_ended, node.id, id, call.session));
  const std::uint64_t session = call.session;
  const bool started = call.started;
  effects.ends.push_back({id, session, std::move(call.failure), std::move(call.warnings)});
  calls_.erase(it);
  std::deque<CallId>& queue = sessions_.at(session);
  std::erase(queue, id);
  if (queue.empty()) {
    sessions_.erase(session);
  } else if (started && plan_.calls == CallMode::serial) {
    const CallId next = queue.front();
    start(next, effects);
    finish_if_done(next, effects);
  }
}

}  // namespace sluice
