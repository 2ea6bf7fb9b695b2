// A workflow in which every node has pools of its own and every message goes through the codec.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "graph/check.h"
#include "graph/coordinator.h"
#include "graph/engine.h"
#include "runtime/wire/codec.h"
#include "tests/wire/everything.h"
#include "workflows/load.h"

namespace sluice::testing {

inline Plan plan_of(const std::string& yaml) {
  PluginDeclaration scripted;
  scripted.name = "scripted";
  scripted.any_ports = true;
  LoadedWorkflow loaded = load_workflow("test.yaml", yaml);
  check(loaded.spec, {scripted}, loaded.diagnostics);
  Plan plan = compile(loaded.spec, {scripted}, loaded.diagnostics);
  for (const Diagnostic& found : loaded.diagnostics) {
    INFO(found.message);
    REQUIRE(found.severity == Severity::warning);
  }
  return plan;
}

/// Nodes answer as `yields` says, by their turn; messages and activations go in a random order.
class WireWorld {
 public:
  WireWorld(const Plan& plan, std::uint64_t seed)
      : plan_(plan), random_(seed), contract_(plan, own_machines(plan), {}) {
    limits.machines = static_cast<std::uint32_t>(plan.nodes.size());
    for (const PlanNode& node : plan.nodes) {
      pools_.push_back(std::make_unique<Pools>());
      pools_.back()->self = {node.id, 3};
      pools_.back()->mix = drawn_mix(random_);
      pools_.back()->waiting_max = waiting_from_others_max;
      engines_.push_back(node.id == entry_node
                             ? nullptr
                             : std::make_unique<Engine>(plan, node.id, *pools_.back()));
    }
    home_ = std::make_unique<Coordinator>(plan, *pools_[entry_node]);
    effects_.from_wire = true;
  }
  WireWorld(const WireWorld&) = delete;
  WireWorld& operator=(const WireWorld&) = delete;

  /// Six calls of three sessions, one of them cancelled; `lost` is lost on the way.
  void converse(NodeId lost) {
    for (std::uint64_t i = 0; i < 6; ++i) {
      const CallId made = call(i % 3);
      if (i == 1) cancel(made);
    }
    for (int i = 0; i < 250; ++i) step();
    lose(lost);
    run();
  }

  wire::Limits limits;
  /// By the node's name and its turn: the fields of each yield, as bits; default all, once.
  std::function<std::vector<std::uint64_t>(const StartActivation&)> yields;
  std::function<bool(const StartActivation&)> fails = [](const StartActivation&) { return false; };
  /// Each message as it travels, and where to.
  std::function<void(const wire::Bytes&, NodeId from, NodeId to)> sent = [](const wire::Bytes&,
                                                                            NodeId, NodeId) {};
  /// Each node on a machine of its own, of the same number; calls begin at 0.
  static wire::Placement own_machines(const Plan& plan) {
    wire::Placement placement;
    for (const PlanNode& node : plan.nodes) placement.nodes.of.push_back(node.id);
    placement.homes.assign(plan.nodes.size(), false);
    placement.homes[entry_node] = true;
    return placement;
  }

  CallId call(std::uint64_t session) {
    std::vector<PayloadRef> inputs;
    for (const std::string& name : plan_.inputs) inputs.push_back(make_text(name));
    const CallId id = home_->call(session, inputs, now_, effects_);
    perform(entry_node);
    return id;
  }
  /// Until nothing is left to do.
  void run() {
    while (step()) {
    }
  }
  bool step() {
    const std::size_t choices = flying_.size() + started_.size();
    if (choices == 0) return false;
    std::size_t at = random_.next() % choices;
    if (at < flying_.size()) {
      std::swap(flying_[at], flying_.back());
      const Flying one = std::move(flying_.back());
      flying_.pop_back();
      arrive(one.bytes, one.from);
    } else {
      at -= flying_.size();
      std::swap(started_[at], started_.back());
      const StartActivation start = started_.back();
      started_.pop_back();
      answer(start);
    }
    now_ += std::chrono::microseconds(1);
    return true;
  }
  /// Bytes that a peer sends: decoded and handed on, or refused.
  bool arrive(const wire::Bytes& bytes, NodeId from) {
    const NodeId to = destination(bytes);
    const wire::Sender sender{pools_[from]->self, contract_};
    Result<Message*> message = wire::decode(plan_, bytes, sender, now_, limits, *pools_[to]);
    if (!message) {
      errors.push_back(message.error().message);
      return false;
    }
    if (to == entry_node)
      home_->receive(**message, effects_);
    else
      engines_[to]->receive(**message, effects_);
    pools_[to]->give(*message);
    perform(to);
    return true;
  }
  void cancel(const CallId& call) {
    home_->cancel(call, effects_);
    perform(entry_node);
  }
  void lose(NodeId node) {
    home_->nodes_lost({node}, effects_);
    perform(entry_node);
  }
  std::size_t left_over() const {
    std::size_t left = home_->calls();
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      if (engines_[i]) {
        const EngineCounts counts = engines_[i]->counts();
        left += counts.activations + counts.buckets + counts.calls;
      }
      left +=
          pools_[i]->messages.in_use() + pools_[i]->frames.in_use() + pools_[i]->scopes.in_use();
    }
    return left;
  }
  Instant now() const { return now_; }
  Pools& pools(NodeId node) { return *pools_[node]; }

  std::map<std::string, int> firings;
  std::size_t delivered = 0;
  std::vector<bool> ended_well;
  std::vector<std::string> errors;    // of messages that were not decoded
  std::vector<std::string> refusals;  // of engines
  std::map<Message::Kind, int> kinds;

 private:
  /// As a link would know it: decoded once more, with pools of its own.
  NodeId destination(const wire::Bytes& bytes) {
    Result<Message*> message = wire::decode(plan_, bytes, now_, limits, postman_);
    if (!message) return entry_node;
    const NodeId to = (*message)->to;
    postman_.give(*message);
    return to;
  }
  void perform(NodeId from) {
    for (Message* message : effects_.messages) {
      ++kinds[message->kind];
      wire::Bytes bytes;
      const Result<void> encoded = wire::encode(plan_, *message, now_, limits, bytes);
      if (!encoded) errors.push_back(encoded.error().message);
      sent(bytes, from, message->to);
      pools_[from]->give(message);
      flying_.push_back({std::move(bytes), from});
    }
    for (const StartActivation& start : effects_.starts) started_.push_back(start);
    delivered += effects_.deliveries.size();
    for (const EndCall& end : effects_.ends) ended_well.push_back(end.failure == nullptr);
    for (const Refusal& refusal : effects_.refusals) refusals.emplace_back(refusal.what);
    effects_.clear();
    effects_.from_wire = true;
  }
  void answer(const StartActivation& start) {
    const PlanNode& node = plan_.nodes[start.node];
    ++firings[node.name];
    Engine& engine = *engines_[start.node];
    if (fails(start)) {
      engine.ended(
          start.activation,
          std::make_unique<Failure>(Failure{start.node, {ErrorCode::unavailable, "told to fail"}}),
          effects_);
      return perform(start.node);
    }
    const std::uint64_t all = ~std::uint64_t{0} >> (64 - node.outputs.size());
    const std::vector<std::uint64_t> frames = yields ? yields(start) : std::vector{all};
    for (const std::uint64_t mask : frames) {
      Frame* frame = pools_[start.node]->new_frame(start.node, node.outputs.size());
      frame->mask = mask;
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        if ((mask >> i & 1U) != 0) frame->values[i] = value(random_);
      engine.yielded(start.activation, frame, false, effects_);
    }
    engine.ended(start.activation, nullptr, effects_);
    perform(start.node);
  }

 public:
  /// Any value that a role may yield; its number is 2, for counts.
  static PayloadRef value(SplitMix64& random) {
    auto* payload = new Payload;
    payload->type = static_cast<ValueType>(random.next() % 8);
    payload->number = 2;
    if (random.next() % 2 == 0) payload->text.assign(random.next() % 40, 'v');
    if (random.next() % 4 == 0)
      payload->tensor = Tensor::zeros(static_cast<Dtype>(random.next() % 5),
                                      {static_cast<std::int64_t>(random.next() % 5), 3})
                            .value();
    if (random.next() % 4 == 0) payload->attributes = {{"generate", -7}, {"", 1}};
    return PayloadRef(payload);
  }

 private:
  const Plan& plan_;
  SplitMix64 random_;
  const wire::Contract contract_;
  Pools postman_;
  std::vector<std::unique_ptr<Pools>> pools_;  // by node
  std::vector<std::unique_ptr<Engine>> engines_;
  std::unique_ptr<Coordinator> home_;
  Effects effects_;
  struct Flying {
    wire::Bytes bytes;
    NodeId from = 0;
  };
  std::vector<Flying> flying_;
  std::vector<StartActivation> started_;
  Instant now_{std::chrono::hours(1)};
};

}  // namespace sluice::testing
