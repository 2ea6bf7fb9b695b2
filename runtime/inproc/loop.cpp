#include "runtime/inproc/loop.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/check.h"
#include "graph/clock.h"

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

/// Others choose keys of our tables: the secret keeps them from falling together.
Pools pools_of(const Residence& where) {
  Pools pools;
  pools.self = where.self;
  if (where.is_alone()) return pools;
  std::random_device secret;
  SplitMix64 random((std::uint64_t{secret()} << 32U) + secret());
  pools.mix = drawn_mix(random);
  pools.waiting_max = waiting_from_others_max;
  return pools;
}

}  // namespace

Loop::Loop(const Plan& plan, LoopHost& host, Residence where, LoopPort* port)
    : plan_(plan),
      host_(host),
      where_(std::move(where)),
      port_(port),
      has_replicas_(where_.nodes.replicas.any()),
      limits_{.machines = where_.machines},
      pools_(pools_of(where_)),
      coordinator_(plan, pools_, where_.nodes.replicas) {
  effects_.from_wire = !where_.is_alone();
  engines_.resize(plan.nodes.size());
  for (const PlanNode& node : plan.nodes) {
    if (node.id == entry_node || !where_.is_here(node.id)) continue;
    engines_[node.id] = std::make_unique<Engine>(plan_, node.id, pools_);
    if (reads_clock(plan, node)) timed_.push_back(node.id);
  }
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

void Loop::warn(NodeId node, ActivationId activation, std::vector<std::string> warnings) {
  engines_[node]->warn(activation, std::move(warnings), effects_);
}

void Loop::tell() {
  for (const CancelActivation& cancel : effects_.cancels) host_.cancel(cancel);
  effects_.cancels.clear();
  for (const DeliverOutput& output : effects_.deliveries) host_.deliver(output);
  effects_.deliveries.clear();
  for (EndCall& end : effects_.ends) host_.end(end);
  effects_.ends.clear();
}

void Loop::tell_not_started() {
  for (const NotStarted& inputs : effects_.not_started) host_.not_started(inputs);
  effects_.not_started.clear();
}

inline void Loop::dispatch(Message& message) {
  Engine* const engine = engines_[message.to].get();
  if (engine != nullptr && (!has_replicas_ || where_.is_here(message.to, message.call)))
    engine->receive(message, effects_);
  else if (message.to == entry_node && message.call.home.machine == where_.self.machine)
    coordinator_.receive(message, effects_);
  else
    port_->send(where_.machine(message.to, message.call), message);
}

void Loop::run() {
  for (;;) {
    if (!effects_.not_started.empty()) [[unlikely]]
      tell_not_started();
    if (effects_.tells()) tell();
    if (!effects_.refusals.empty()) [[unlikely]]
      tell_refusals();
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
    dispatch(*message);
    pools_.give(message);
  }
}

void Loop::tell_refusals() {
  for (const Refusal& refusal : std::exchange(effects_.refusals, {})) port_->refused(refusal);
}

Result<void> Loop::receive(Origin from, std::span<const std::byte> bytes, Instant now) {
  advance(now);
  wire::Lending lending{port_->lender(), from};
  Result<Message*> decoded =
      wire::decode(plan_, bytes, {from, *where_.contract}, now, limits_, pools_, lending);
  if (!decoded.ok()) return decoded.error();
  Message* const message = *decoded;
  const auto refuse = [&](std::string what) -> Result<void> {
    pools_.give(message);
    return Error{ErrorCode::corrupt, std::move(what)};
  };
  if (where_.machine(message->to, message->call) != where_.self.machine)
    return refuse("a message for node " + std::to_string(message->to) + ", which is not here");
  if (message->call.home.machine == from.machine && message->call.home != from)
    return refuse("a call of another life");
  const bool is_frame = message->kind == Message::Kind::frame;
  dispatch(*message);
  if (is_frame) port_->took(from, message->target, bytes.size() + lending.bytes);
  pools_.give(message);
  return {};
}

void Loop::machine_lost(std::uint32_t machine) {
  coordinator_.nodes_lost(where_.nodes.nodes_of(machine), effects_, machine);
}

void Loop::home_lost(Origin home) {
  for (const auto& engine : engines_)
    if (engine) engine->home_lost(home, effects_);
}

std::vector<CallId> Loop::machine_back(std::uint32_t machine) {
  return coordinator_.nodes_back(where_.nodes.nodes_of(machine), machine);
}

void Loop::forget(const std::vector<CallId>& given_up) {
  for (std::size_t node = 0; node < engines_.size(); ++node) {
    if (!engines_[node]) continue;
    std::vector<CallId> here;  // of the others nothing comes, nor that they have ended
    for (const CallId& call : given_up)
      if (where_.is_here(static_cast<NodeId>(node), call)) here.push_back(call);
    engines_[node]->forget(here);
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
