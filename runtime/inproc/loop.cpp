#include "runtime/inproc/loop.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice {

Loop::Loop(const Plan& plan, LoopHost& host)
    : plan_(plan), host_(host), home_(plan, pools_), queue_(1024) {
  engines_.resize(plan.nodes.size());
  for (const PlanNode& node : plan.nodes)
    if (node.id != entry_node) engines_[node.id] = std::make_unique<Engine>(plan_, node.id, pools_);
  for (const PlanNode& node : plan.nodes)
    if (node.deadline != Instant{} || node.max_age != Instant{}) timed_.push_back(node.id);
}

void Loop::advance(Instant now) {
  for (const NodeId node : timed_) engines_[node]->advance(now);
}

Instant Loop::next_deadline() const {
  Instant next = home_.next_deadline();
  for (const NodeId node : timed_) next = std::min(next, engines_[node]->next_deadline());
  return next;
}

Loop::~Loop() = default;

CallId Loop::call(std::uint64_t session, std::vector<PayloadRef> inputs, Instant now) {
  advance(now);
  const CallId id = home_.call(session, std::move(inputs), now, effects_);
  perform();
  return id;
}

void Loop::cancel(CallId call) {
  home_.cancel(call, effects_);
  perform();
}

void Loop::tick(Instant now) {
  advance(now);
  home_.tick(now, effects_);
  for (const NodeId node : timed_) engines_[node]->tick(effects_);
  perform();
}

Frame* Loop::new_frame(NodeId node) {
  return pools_.new_frame(node, plan_.nodes[node].outputs.size());
}

void Loop::yielded(NodeId node, ActivationId activation, Frame* frame, bool last) {
  engines_[node]->yielded(activation, frame, last, effects_);
  perform();
}

void Loop::ended(NodeId node, ActivationId activation, std::unique_ptr<Failure> failure) {
  engines_[node]->ended(activation, std::move(failure), effects_);
  perform();
}

void Loop::perform() {
  for (Message* message : effects_.messages) {
    if (waiting_ == queue_.size()) {
      std::vector<Message*> wider(queue_.size() * 2);
      for (std::size_t i = 0; i < waiting_; ++i)
        wider[i] = queue_[(head_ + i) & (queue_.size() - 1)];
      queue_ = std::move(wider);
      head_ = 0;
    }
    queue_[(head_ + waiting_++) & (queue_.size() - 1)] = message;
  }
  for (const StartActivation& start : effects_.starts) starts_.push_back(start);
  for (const CancelActivation& cancel : effects_.cancels) host_.cancel(cancel);
  for (const DeliverOutput& output : effects_.deliveries) host_.deliver(output);
  for (EndCall& end : effects_.ends) host_.end(end);
  effects_.clear();
}

void Loop::run() {
  for (;;) {
    // The newest first: its inputs are still in the cache, and fewer activations wait.
    while (!starts_.empty()) {
      const StartActivation start = starts_.back();
      starts_.pop_back();
      host_.start(start);
    }
    if (waiting_ == 0) return;
    Message* message = queue_[head_];
    head_ = (head_ + 1) & (queue_.size() - 1);
    --waiting_;
    ++handled_;
    if (message->to == entry_node)
      home_.receive(*message, effects_);
    else
      engines_[message->to]->receive(*message, effects_);
    pools_.give(message);
    perform();
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
