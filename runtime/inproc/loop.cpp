#include "runtime/inproc/loop.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice {

namespace {

/// Field by field: copied as a whole it would wait for what the engine has just written in parts
/// (measured: a tenth of a hop).
StartActivation take_newest(std::vector<StartActivation>& starts) {
  const StartActivation& newest = starts.back();
  StartActivation start;
  start.node = newest.node;
  start.activation.index = newest.activation.index;
  start.activation.generation = newest.activation.generation;
  start.group = newest.group;
  start.replica = newest.replica;
  start.iteration = newest.iteration;
  start.call = newest.call;
  start.session = newest.session;
  start.inputs = newest.inputs;
  starts.pop_back();
  return start;
}

}  // namespace

Loop::Loop(const Plan& plan, LoopHost& host)
    : plan_(plan), host_(host), coordinator_(plan, pools_) {
  engines_.resize(plan.nodes.size());
  for (const PlanNode& node : plan.nodes)
    if (node.id != entry_node) engines_[node.id] = std::make_unique<Engine>(plan_, node.id, pools_);
  for (const PlanNode& node : plan.nodes)
    if (node.deadline != Instant{} || node.max_age != Instant{}) timed_.push_back(node.id);
}

void Loop::advance(Instant now) {
  for (const NodeId node : timed_) engines_[node]->advance(now);
}

Instant Loop::next_deadline() {
  Instant next = coordinator_.next_deadline();
  for (const NodeId node : timed_) next = std::min(next, engines_[node]->next_deadline());
  return next;
}

Loop::~Loop() = default;

CallId Loop::call(std::uint64_t session, std::span<PayloadRef> inputs, Instant now) {
  advance(now);
  return coordinator_.call(session, inputs, now, effects_);
}

void Loop::cancel(const CallId& call) { coordinator_.cancel(call, effects_); }

void Loop::give_up(const CallId& call) { coordinator_.give_up(call, effects_); }

void Loop::tick(Instant now) {
  advance(now);
  coordinator_.tick(now, effects_);
  for (const NodeId node : timed_) engines_[node]->tick(effects_);
}

void Loop::yielded(NodeId node, ActivationId activation, Frame* frame, bool last) {
  engines_[node]->yielded(activation, frame, last, effects_);
}

void Loop::ended(NodeId node, ActivationId activation, std::unique_ptr<Failure> failure) {
  engines_[node]->ended(activation, std::move(failure), effects_);
}

void Loop::tell() {
  for (const CancelActivation& cancel : effects_.cancels) host_.cancel(cancel);
  effects_.cancels.clear();
  for (const DeliverOutput& output : effects_.deliveries) host_.deliver(output);
  effects_.deliveries.clear();
  for (EndCall& end : effects_.ends) host_.end(end);
  effects_.ends.clear();
}

void Loop::run() {
  for (;;) {
    if (effects_.tells()) tell();
    // The newest first: its inputs are still in the cache, and fewer activations wait.
    while (!effects_.starts.empty()) {
      const StartActivation start = take_newest(effects_.starts);
      host_.start(start);
    }
    if (next_ == batch_.size()) {
      batch_.clear();
      next_ = 0;
      batch_.swap(effects_.messages);
      if (batch_.empty()) return;
    }
    Message* message = batch_[next_++];
    ++handled_;
    if (message->to == entry_node)
      coordinator_.receive(*message, effects_);
    else
      engines_[message->to]->receive(*message, effects_);
    pools_.give(message);
  }
}

EngineCounts Loop::counts() const {
  EngineCounts all;
  for (const auto& engine : engines_) {
    if (!engine) continue;
    const EngineCounts counts = engine->counts();
    all.activations += counts.activations;
    all.buckets += counts.buckets;
    all.calls += counts.calls;
  }
  return all;
}

}  // namespace sluice
