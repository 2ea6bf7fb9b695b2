// What a machine that is wrong, or means ill, can say to an engine or a home after its message was
// read: it harms its own call, and nobody else's.
#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "graph/coordinator.h"
#include "graph/engine.h"
#include "joined.h"

using namespace sluice;
using namespace std::chrono_literals;
using sluice::testing::joined;
using sluice::testing::plan_of;

namespace {

/// A node's engine, and messages to it as anybody may make them up.
struct Target {
  Target(const Plan& made, std::size_t waiting_max, const char* node = "both") : plan(made) {
    pools.waiting_max = waiting_max;
    engine = std::make_unique<Engine>(plan, plan.find(node)->id, pools);
    effects.from_wire = true;
  }
  ~Target() { drop(); }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  void drop() {
    for (Message* message : effects.messages) pools.give(message);
    effects.clear();
  }
  ScopeRef scope(CollectorId collector, const CallId& call, ScopeId id) {
    Scope* made = pools.new_scope(collector, call);
    made->id = id;
    const std::vector<CollectorId>& outer = plan.collectors[collector].outer;
    made->outer.resize(outer.size());
    for (std::size_t i = 0; i < outer.size(); ++i)
      made->outer[i] = {ScopeRef(pools.new_scope(outer[i], call)), 0, share_whole};
    return ScopeRef(made);
  }
  /// A frame along the edge from `from` with this part of the join's scope.
  void frame(const char* from, const CallId& call, ScopeId id, std::uint64_t begin,
             std::uint64_t width) {
    for (const Edge& edge : plan.edges) {
      if (edge.from != plan.find(from)->id) continue;
      Message* message = pools.new_message(Message::Kind::frame, edge.to, call, 1);
      message->target = edge.id;
      message->credit = {1, 0};
      Frame* made = pools.new_frame(edge.from, 1);
      made->mask = 1;
      made->values[0] = make_text(from);
      message->frame = FrameRef(made);
      message->shares.resize(1);
      message->shares[0] = {scope(edge.shares[0], call, id), begin, width};
      engine->receive(*message, effects);
      pools.give(message);
    }
  }

  const Plan& plan;
  Pools pools;
  Effects effects;
  std::unique_ptr<Engine> engine;
};

constexpr std::uint64_t half = share_whole / 2;

}  // namespace

TEST_CASE(
    "a call whose credit is all back, but not what its outputs wait for, ends with an error") {
  const Plan plan = plan_of(joined);
  Pools pools;
  Coordinator home(plan, pools);
  Effects effects;
  effects.from_wire = true;
  PayloadRef input = make_text("x");
  const CallId call = home.call(1, {&input, 1}, 0s, effects);
  // A machine takes the first messages, and says only that it is done with them.
  const std::vector<Message*> first = std::exchange(effects.messages, {});
  for (Message* message : first) {
    Message* back = pools.new_message(Message::Kind::credit, entry_node, call, 1);
    back->credit = message->credit;
    home.receive(*back, effects);
    pools.give(back);
    pools.give(message);
  }
  REQUIRE(effects.ends.size() == 1);
  REQUIRE(effects.ends[0].failure != nullptr);
  CHECK(effects.ends[0].failure->kind == FailureKind::node_lost);
  CHECK(effects.ends[0].failure->error.message.starts_with("output 'out' is not complete"));
  REQUIRE(effects.refusals.size() == 1);
  CHECK(effects.refusals[0].what == "a call ended before its outputs were complete");
  for (Message* message : effects.messages) pools.give(message);
}

TEST_CASE("a scope's name that another call has taken first is still the call's own") {
  const Plan plan = plan_of(joined);
  Target target(plan, unbounded);
  const CallId theirs{1, {9, 1}};
  const CallId ours{1, {0, 1}};
  const ScopeId name{7, {0, 1}};
  target.frame("left", theirs, name, 0, half);
  target.frame("left", ours, name, 0, half);
  target.frame("right", ours, name, half, half);
  CHECK(target.effects.refusals.empty());
  REQUIRE(target.effects.starts.size() == 1);
  CHECK(target.effects.starts[0].call == ours);
  CHECK(target.effects.starts[0].inputs.size() == 2);
  CHECK(target.engine->counts().buckets == 1);
  target.engine->home_lost(theirs.home, target.effects);
  CHECK(target.engine->counts().buckets == 0);
}

TEST_CASE("a call that its home says is over, while a session's turn of it runs, harms nobody") {
  const Plan plan = plan_of(R"(
sluice: 1
workflow: turns
inputs: { x: text }
roles: { any: { plugin: scripted }, talk: { plugin: scripted, balance: session } }
nodes:
  left: { run: any.go, inputs: [ { x: inputs.x } ], outputs: [y] }
  turn: { run: talk.go, inputs: [ { x: left.y } ], outputs: [z] }
outputs: { out: turn.z }
)");
  Target target(plan, unbounded, "turn");
  const CallId call{3, {0, 1}};
  target.frame("left", call, {7, {0, 1}}, 0, half);
  REQUIRE(target.effects.starts.size() == 1);
  const StartActivation start = target.effects.starts[0];
  Message* over = target.pools.new_message(Message::Kind::call_ended, start.node, call, 1);
  over->floor = 0;  // and does not even say that the call is past
  target.engine->receive(*over, target.effects);
  target.pools.give(over);
  CHECK(target.engine->counts().calls == 0);
  target.engine->ended(start.activation, nullptr, target.effects);
  CHECK(target.engine->counts().activations == 0);
}

TEST_CASE("an engine keeps no more buckets, calls and orders than it may") {
  const Plan plan = plan_of(joined);
  Target target(plan, 8);
  for (std::uint64_t i = 1; i <= 20; ++i) target.frame("left", {i, {9, 1}}, {i, {9, 1}}, 0, half);
  CHECK(target.engine->counts().buckets == 8);
  CHECK(target.effects.refusals.size() == 12);
  CHECK(target.effects.refusals[0].what == "too much waits here already");
  target.effects.refusals.clear();
  for (std::uint64_t i = 1; i <= 20; ++i) {
    Message* message = target.pools.new_message(Message::Kind::cancel, target.plan.find("both")->id,
                                                {i, {9, 1}}, 1);
    message->credit = {1, 0};
    target.engine->receive(*message, target.effects);
    target.pools.give(message);
  }
  CHECK(target.effects.refusals.size() == 12);
  // Its home is found out: all of it goes, and there is room again.
  target.engine->home_lost({9, 1}, target.effects);
  target.drop();
  target.frame("left", {1, {0, 1}}, {1, {0, 1}}, 0, half);
  CHECK(target.effects.refusals.empty());
}
