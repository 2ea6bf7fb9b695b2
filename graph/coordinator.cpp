#include "graph/coordinator.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "base/count_text.h"
#include "graph/beginning.h"

namespace sluice {

namespace {

/// Of several failures the caller is told one. Which one follows from what failed and how, not
/// from whose message came first: the first node in the file; of one node's failures the kind that
/// stands first in `FailureKind`, and of those the message that sorts first, causes first. A call
/// that has been cancelled, or lost a machine, keeps the failure it had then: what fails later may
/// follow from it. A node's limit of frames cuts the call short, so it is told before what has
/// failed until then.
bool is_told_before(const Failure& a, const Failure& b) {
  const bool cuts = a.kind == FailureKind::frame_limit, other = b.kind == FailureKind::frame_limit;
  if (cuts != other) return cuts;
  // What a role says of work that it called off, since something else failed, is no cause.
  const bool follows = a.error.code == ErrorCode::cancelled;
  const bool other_follows = b.error.code == ErrorCode::cancelled;
  return std::tie(a.node, a.kind, follows, a.error.message) <
         std::tie(b.node, b.kind, other_follows, b.error.message);
}

}  // namespace

Coordinator::Coordinator(const Plan& plan, Pools& pools, Replicas replicas)
    : plan_(plan),
      pools_(pools),
      home_(pools.self),
      choice_(std::move(replicas), pools.mix),
      splitter_(plan, entry_node, pools),
      calls_(pools.mix),
      sessions_(pools.mix) {
  for (const PlanNode& node : plan.nodes)
    if (node.order != none || node.queue_max != 0 || node.frames_counted || has_join(node))
      keepers_.push_back(node.id);
}

CallId Coordinator::call(std::uint64_t session, std::span<PayloadRef> inputs, Instant now,
                         Effects& effects, Instant allowed) {
  Number id = first_number(next_call_++);
  if (std::cmp_greater_equal(calls_.size(), plan_.limits.calls))
    return refuse(id, session, effects);
  id += choice_.by_cache() ? choice_.choose(session, beginning_of(inputs, pools_.mix.number))
                           : choice_.choose(session);
  CallRecord& call = new_record(id);
  call.session = session;
  for (PayloadRef& input : inputs) call.inputs.push_back(std::move(input));
  while (call.outputs.size() < plan_.outputs.size()) call.outputs.emplace_back(pools_);
  call.arrived = now;
  call.allowed = std::min(allowed, std::chrono::duration_cast<Instant>(plan_.limits.deadline));
  call.deadline = now + call.allowed;
  add_due(call.deadline, id);
  SessionQueue& queue = sessions_[session];
  const bool alone = queue.first == 0;
  if (alone)
    queue.first = id;
  else
    record_of(queue.last).next = id;
  call.previous = queue.last;
  queue.last = id;
  if (plan_.calls == CallMode::overlap || alone) {
    begin(id, call, effects);
    if (is_done(call)) finish_if_done(id, effects);
  }
  return name_of(id);
}

CallId Coordinator::refuse(Number id, std::uint64_t session, Effects& effects) const {
  const std::string most = count_text(plan_.limits.calls, "call");
  EndCall& end = effects.ends.emplace_back();
  end.call = name_of(id);
  end.session = session;
  end.failure = std::make_unique<Failure>(
      Failure{entry_node,
              {ErrorCode::exhausted, "workflow '" + plan_.workflow + "' has " + most +
                                         " under way, as many as it takes at once (limits: "
                                         "calls); call again when some have ended"},
              FailureKind::refused});
  return end.call;
}

void Coordinator::begin(Number id, CallRecord& call, Effects& effects) {
  if (waits_for_starts_ && first_away(id) == entry_node)
    ready_.push_back(id);
  else
    start(id, call, effects);
}

bool Coordinator::start_next(Effects& effects) {
  while (!ready_.empty()) {
    const Number id = ready_.front();
    ready_.pop_front();
    CallRecord* const* found = calls_.find(id);
    if (found == nullptr || (*found)->started) continue;
    start(id, **found, effects);
    finish_if_done(id, effects);
    return true;
  }
  return false;
}

void Coordinator::start(Number id, CallRecord& call, Effects& effects) {
  if (first_away(id) != entry_node) return fail_lost(id, call, effects);
  call.started = true;
  // Half of the credit never leaves, so that there is some to send orders with.
  Credit credit = Credit::whole();
  call.returned.add(credit.take(credit.amount / 2));
  splitter_.begin(entry_, nothing_, credit, name_of(id), call.session, 0);
  Frame* frame = pools_.new_frame(entry_node, plan_.inputs.size());
  for (std::size_t i = 0; i < call.inputs.size() && i < plan_.inputs.size(); ++i) {
    if (!call.inputs[i]) continue;
    frame->values[i] = std::move(call.inputs[i]);
    frame->mask |= std::uint64_t{1} << i;
  }
  call.untold.given = frame->mask;
  frame->iterations.assign(plan_.loop_nodes, 0);
  if (plan_.paths) frame->path.assign(1, 0);
  frame->born = call.arrived;
  splitter_.yield(entry_, FrameRef(frame), true, effects);
  splitter_.end(entry_, nullptr, effects);
}

void Coordinator::receive(Message& message, Effects& effects) {
  const Number id = message.call.number;
  if (message.call.home != home_) return;  // of an earlier life
  CallRecord* const* found = calls_.find(id);
  if (found == nullptr) {
    if (!lost_any_)
      effects.refuse(message.call, entry_node, "a message came for a call that has ended");
    return;
  }
  CallRecord& call = **found;
  if (call.aborting) {
    if (message.kind == Message::Kind::aborted) std::erase(call.pending, message.target);
    return finish_if_done(id, effects);
  }
  switch (message.kind) {
    case Message::Kind::frame:
      if (!call.cancelled) receive_frame(message, call, effects);
      break;
    case Message::Kind::settled: {
      if (call.cancelled) break;
      const Collector& collector = plan_.collectors[message.target];
      OrderQueue& queue = call.outputs[collector.group].queue;
      if (!queue.settle(message.shares[0]))
        effects.refuse(message.call, entry_node, queue.problem());
      deliver_waiting(id, call, collector.group, effects);
      break;
    }
    case Message::Kind::credit:
      for (std::string& warning : message.warnings) call.warnings.add(std::move(warning));
      call.untold.add(message.lost);
      if (message.failure) {
        const bool cancel =
            plan_.cancel_on_error || message.failure->kind == FailureKind::frame_limit;
        fail(id, call, std::move(*message.failure), cancel, effects);
      }
      break;
    case Message::Kind::cancel:
    case Message::Kind::abort:
    case Message::Kind::aborted:
    case Message::Kind::call_ended:
      return effects.refuse(message.call, entry_node, "this message goes to nodes, or to no call");
  }
  if (!call.returned.add(message.credit))
    effects.refuse(message.call, entry_node, "more credit came back than went out");
  if (is_done(call)) finish_if_done(id, effects);
}

void Coordinator::OutputRecord::clear() {
  queue.clear();
  waiting.clear();
  free.clear();
}

std::uint32_t Coordinator::OutputRecord::keep(PayloadRef value) {
  if (free.empty()) {
    waiting.push_back(std::move(value));
    return static_cast<std::uint32_t>(waiting.size() - 1);
  }
  const std::uint32_t item = free.back();
  free.pop_back();
  waiting[item] = std::move(value);
  return item;
}

void Coordinator::receive_frame(Message& message, CallRecord& call, Effects& effects) {
  const Edge& edge = plan_.edges[message.target];
  OutputRecord& output = call.outputs[edge.group];
  Share& rest = message.shares[0];
  for (const FieldMap& map : edge.fields) {
    if ((message.frame->mask >> map.from & 1U) == 0) continue;
    PayloadRef value = take_value(message.frame, map);
    Share part = rest;
    // Several fields of one frame stand one after the other within its share.
    if (&map != &edge.fields.back()) part.width = 1;
    rest.begin += part.width;
    rest.width -= part.width;
    if (output.queue.pass(part))
      deliver(message.call.number, call, edge.group, std::move(value), effects);
    else if (!output.queue.put(part, output.keep(std::move(value))))
      effects.refuse(message.call, entry_node, output.queue.problem());
  }
  if (!output.queue.settle(rest)) effects.refuse(message.call, entry_node, output.queue.problem());
  deliver_waiting(message.call.number, call, edge.group, effects);
}

void Coordinator::deliver_waiting(Number id, CallRecord& call, std::uint16_t index,
                                  Effects& effects) {
  OutputRecord& output = call.outputs[index];
  for (OrderQueue::Item item; (item = output.queue.pop(false)) != OrderQueue::no_item;) {
    output.free.push_back(item);
    deliver(id, call, index, std::move(output.waiting[item]), effects);
  }
  if (output.queue.broken()) effects.refuse(name_of(id), entry_node, "a position came twice");
}

void Coordinator::deliver(Number id, CallRecord& call, std::uint16_t index, PayloadRef value,
                          Effects& effects) {
  if (call.cancelled) return;
  if (++call.delivered <= plan_.limits.frames) {
    effects.deliveries.push_back({name_of(id), index, std::move(value)});
    return;
  }
  fail(id, call,
       {entry_node,
        {ErrorCode::exhausted, "the call reached the limit of " +
                                   count_text(plan_.limits.frames, "output frame") +
                                   " (limits: frames)"},
        FailureKind::frame_limit},
       true, effects);
}

void Coordinator::fail(Number id, CallRecord& call, Failure failure, bool cancel,
                       Effects& effects) {
  if (!call.failure ||
      (!call.cancelled && failure.node != entry_node && is_told_before(failure, *call.failure)))
    call.failure = std::make_unique<Failure>(std::move(failure));
  if (cancel) spread_cancel(id, call, effects);
}

void Coordinator::spread_cancel(Number id, CallRecord& call, Effects& effects) {
  if (call.cancelled) return;
  call.cancelled = true;
  for (OutputRecord& output : call.outputs) output.clear();  // nothing is delivered any more
  for (const PlanNode& node : plan_.nodes) {
    if (node.id == entry_node) continue;
    Message* message =
        pools_.new_message(Message::Kind::cancel, node.id, name_of(id), call.session);
    message->credit = call.returned.lend();
    effects.messages.push_back(message);
  }
}

void Coordinator::cancel(const CallId& named, Effects& effects) {
  if (!knows(named)) return;
  const Number id = named.number;
  CallRecord& call = record_of(id);
  fail(
      id, call,
      {entry_node, {ErrorCode::cancelled, "the caller cancelled the call"}, FailureKind::cancelled},
      call.started, effects);
  finish_if_done(id, effects);
}

void Coordinator::tick(Instant now, Effects& effects) {
  for (Number id = first_timed(); id != 0; id = first_timed()) {
    CallRecord& call = record_of(id);
    if (call.deadline > now) return;
    std::ranges::pop_heap(due_, std::greater());
    due_.pop_back();
    const auto allowed = std::chrono::duration_cast<std::chrono::milliseconds>(call.allowed);
    fail(id, call,
         {entry_node,
          {ErrorCode::deadline,
           "the call did not end within its deadline of " + std::to_string(allowed.count()) +
               (call.allowed < plan_.limits.deadline ? " ms" : " ms (limits: deadline)")},
          FailureKind::deadline},
         call.started, effects);
    finish_if_done(id, effects);
  }
}

void Coordinator::fail_lost(Number id, CallRecord& call, Effects& effects) {
  const PlanNode& node = plan_.nodes[first_away(id)];
  fail(id, call,
       {node.id,
        {ErrorCode::unavailable, "the machine of node '" + node.name + "' is away"},
        FailureKind::node_lost},
       false, effects);
}

void Coordinator::abort(Number id, CallRecord& call, Effects& effects) {
  fail_lost(id, call, effects);
  drop(id, call, effects);
}

void Coordinator::give_up(const CallId& named, Effects& effects) {
  cancel(named, effects);
  if (!knows(named) || record_of(named.number).aborting) return;
  const Number id = named.number;
  drop(id, record_of(id), effects);
  finish_if_done(id, effects);
}

void Coordinator::drop(Number id, CallRecord& call, Effects& effects) {
  call.aborting = true;
  for (const PlanNode& node : plan_.nodes) {
    if (node.id == entry_node || is_away(node.id, id)) continue;
    call.pending.push_back(node.id);
    effects.messages.push_back(
        pools_.new_message(Message::Kind::abort, node.id, name_of(id), call.session));
  }
  for (OutputRecord& output : call.outputs) output.clear();
}

bool Coordinator::concerns(const Away& away, Number id) const {
  const Replicas& replicas = choice_.replicas();
  return !replicas.has(away.node) || away.machine == replicas.machine(away.node, id);
}

bool Coordinator::is_away(NodeId node, Number id) const {
  return std::ranges::any_of(
      away_, [&](const Away& away) { return away.node == node && concerns(away, id); });
}

NodeId Coordinator::first_away(Number id) const {
  const auto first =
      std::ranges::find_if(away_, [&](const Away& away) { return concerns(away, id); });
  return first == away_.end() ? entry_node : first->node;
}

void Coordinator::nodes_lost(const std::vector<NodeId>& nodes, Effects& effects,
                             std::uint32_t machine) {
  if (nodes.empty()) return;
  lost_any_ = true;
  choice_.machine_lost(machine);
  for (const NodeId node : nodes) away_.push_back({node, machine});
  std::ranges::sort(away_);
  std::vector<Number> running;
  for (std::size_t i = oldest_; i < order_.size(); ++i) {
    const Number id = order_[i];
    if (!calls_.contains(id) || !record_of(id).started) continue;
    CallRecord& call = record_of(id);
    if (first_away(id) == entry_node) continue;  // it uses other machines
    running.push_back(id);
    if (!call.aborting) {
      abort(id, call, effects);
      continue;
    }
    std::erase_if(call.pending, [&](NodeId node) { return is_away(node, id); });
  }
  for (const Number id : running) finish_if_done(id, effects);
  fail_waiting(effects);
}

void Coordinator::fail_waiting(Effects& effects) {
  if (!choice_.replicas().any()) {
    while (start_next(effects)) {
    }
    return;
  }
  // Of their sessions, too: the next call gets another machine, and these come before it.
  std::vector<Number> waiting;
  for (std::size_t i = oldest_; i < order_.size(); ++i)
    if (calls_.contains(order_[i]) && first_away(order_[i]) != entry_node)
      waiting.push_back(order_[i]);
  for (const Number id : waiting) {
    CallRecord* const* found = calls_.find(id);
    if (found == nullptr || (*found)->started) continue;
    fail_lost(id, **found, effects);
    finish_if_done(id, effects);
  }
}

std::vector<CallId> Coordinator::nodes_back(const std::vector<NodeId>& nodes,
                                            std::uint32_t machine) {
  choice_.machine_back(machine);
  std::erase_if(away_, [&](const Away& away) {
    return std::ranges::find(nodes, away.node) != nodes.end() &&
           (!choice_.replicas().has(away.node) || away.machine == machine);
  });
  std::vector<CallId> given_up;
  for (std::size_t i = oldest_; i < order_.size(); ++i)
    if (calls_.contains(order_[i]) && record_of(order_[i]).aborting)
      given_up.push_back(name_of(order_[i]));
  return given_up;
}

void Coordinator::add_due(Instant deadline, Number id) {
  // Of those that have ended it keeps at most as many again.
  if (due_.size() > 2 * calls_.size() + 64) {
    std::erase_if(due_, [&](const Due& due) { return !calls_.contains(due.call); });
    std::ranges::make_heap(due_, std::greater());
  }
  due_.push_back({deadline, id});
  std::ranges::push_heap(due_, std::greater());
}

Coordinator::Number Coordinator::first_timed() {
  // A call that has failed still has a deadline: what it left running may hang.
  while (!due_.empty()) {
    CallRecord* const* call = calls_.find(due_.front().call);
    if (call != nullptr && !(*call)->cancelled && !(*call)->aborting) return due_.front().call;
    std::ranges::pop_heap(due_, std::greater());
    due_.pop_back();
  }
  return 0;
}

Instant Coordinator::next_deadline() {
  const Number first = first_timed();
  return first == 0 ? Instant::max() : record_of(first).deadline;
}

void Coordinator::finish_if_done(Number id, Effects& effects) {
  // In a loop, not by recursion: a whole queue of calls may fail one after the other.
  for (Number next = id; next != 0;) next = finish_one(next, effects);
}

void Coordinator::check_outputs(Number id, CallRecord& call, Effects& effects) {
  if (!call.started || call.aborting || call.cancelled) return;
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    const OrderQueue& queue = call.outputs[i].queue;
    const bool one_scope = plan_.collectors[plan_.outputs[i].collector].root == entry_node;
    if (queue.empty() && !queue.open() && (!one_scope || queue.complete(0))) continue;
    effects.refuse(name_of(id), entry_node, "a call ended before its outputs were complete");
    fail(id, call,
         {entry_node,
          {ErrorCode::corrupt, "output '" + plan_.outputs[i].name +
                                   "' is not complete, though nothing of the call is left: a "
                                   "machine said that it was done and was not"},
          FailureKind::node_lost},
         false, effects);
    return;
  }
}

Coordinator::Number Coordinator::finish_one(Number id, Effects& effects) {
  CallRecord* const* found = calls_.find(id);
  if (found == nullptr || !is_done(**found)) return 0;
  CallRecord& call = **found;
  check_outputs(id, call, effects);
  const std::uint64_t session = call.session;
  const bool started = call.started;
  const bool all = call.cancelled || call.aborting || lost_any_;
  EndCall& end = effects.ends.emplace_back();
  end.call = name_of(id);
  end.session = session;
  end.failure = std::move(call.failure);
  end.started = started;
  if (started && !end.failure) call.untold.say(plan_, call.delivered == 0, call.warnings);
  call.untold.silent_nodes(silent_);
  if (!call.warnings.empty()) end.warnings = call.warnings.counted();
  const Number next = leave_queue(call);
  forget(id);
  if (started) tell_ended(id, session, all, effects);
  if (next == 0 || plan_.calls == CallMode::overlap) return 0;
  CallRecord& follower = record_of(next);
  if (follower.started) return 0;
  begin(next, follower, effects);
  return next;
}

void Coordinator::CallRecord::clear() {
  next = previous = 0;
  inputs.clear();
  returned.clear();
  for (OutputRecord& output : outputs) output.clear();
  failure.reset();
  warnings.clear();
  untold.clear();
  delivered = 0;
  started = cancelled = aborting = false;
  pending.clear();
}

Coordinator::CallRecord& Coordinator::new_record(Number call) {
  CallRecord* record = calls_[call] = free_calls_.take();
  order_.push_back(call);
  return *record;
}

void Coordinator::forget(Number call) {
  CallRecord* record = *calls_.find(call);
  calls_.erase(call);
  record->clear();
  free_calls_.give(record);
  choice_.call_ended(call);
  while (oldest_ < order_.size() && !calls_.contains(order_[oldest_])) ++oldest_;
  if (2 * oldest_ < order_.size()) return;
  order_.erase(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(oldest_));
  oldest_ = 0;
}

Coordinator::Number Coordinator::leave_queue(const CallRecord& record) {
  SessionQueue& queue = *sessions_.find(record.session);
  if (record.previous == 0)
    queue.first = record.next;
  else
    record_of(record.previous).next = record.next;
  if (record.next == 0)
    queue.last = record.previous;
  else
    record_of(record.next).previous = record.previous;
  const Number first = queue.first;
  if (first == 0) sessions_.erase(record.session);
  return first;
}

void Coordinator::tell_ended(Number id, std::uint64_t session, bool all, Effects& effects) {
  const auto tell = [&](NodeId node) {
    if (is_away(node, id)) return;
    Message* message = pools_.new_message(Message::Kind::call_ended, node, name_of(id), session);
    message->floor = floor();
    effects.messages.push_back(message);
  };
  if (!all) {
    for (const NodeId node : keepers_) tell(node);
    for (const NodeId node : silent_)
      if (!std::ranges::binary_search(keepers_, node)) tell(node);
    return;
  }
  for (const PlanNode& node : plan_.nodes)
    if (node.id != entry_node) tell(node.id);
}

}  // namespace sluice
