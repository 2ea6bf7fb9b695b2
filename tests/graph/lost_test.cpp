// Deadlines of single calls, and what an engine keeps of calls whose home is gone.
#include <catch2/catch.hpp>
#include <vector>

#include "graph/coordinator.h"
#include "graph/engine.h"
#include "joined.h"

using namespace sluice;
using namespace std::chrono_literals;
using sluice::testing::joined;
using sluice::testing::plan_of;

namespace {

void drop_messages(Pools& pools, Effects& effects) {
  for (Message* message : effects.messages) pools.give(message);
  effects.clear();
}

/// The call's first messages, as node `left` gets them.
Message* first_for(NodeId node, const Effects& effects) {
  for (Message* message : effects.messages)
    if (message->to == node) return message;
  return nullptr;
}

}  // namespace

TEST_CASE("calls end in the order of their own deadlines, and not before") {
  const Plan plan = plan_of(joined);
  Pools pools;
  Coordinator home(plan, pools);
  Effects effects;
  std::vector<CallId> calls;
  const std::vector<Instant> allowed{5s, 1s, Instant::max(), 3s};
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    PayloadRef input = make_text("x");
    calls.push_back(home.call(i, {&input, 1}, 0s, effects, allowed[i]));
    drop_messages(pools, effects);
  }
  std::vector<std::pair<Instant, CallId>> expected{
      {1s, calls[1]}, {3s, calls[3]}, {5s, calls[0]}, {10s, calls[2]}};
  for (const auto& [at, call] : expected) {
    CHECK(home.next_deadline() == at);
    home.tick(at - 1ns, effects);
    CHECK(effects.messages.empty());
    home.tick(at, effects);
    REQUIRE(!effects.messages.empty());  // cancels, of this call only
    for (const Message* message : effects.messages) {
      CHECK(message->kind == Message::Kind::cancel);
      CHECK(message->call == call);
    }
    drop_messages(pools, effects);
  }
  CHECK(home.next_deadline() == Instant::max());
}

TEST_CASE("deadlines of calls that have ended are let go of") {
  const Plan plan = plan_of(joined);
  Pools pools;
  Coordinator home(plan, pools);
  Effects effects;
  home.nodes_lost({1}, effects);  // so that every call fails at once
  for (int i = 0; i < 10'000; ++i) {
    PayloadRef input = make_text("x");
    home.call(1, {&input, 1}, 0s, effects, std::chrono::seconds(1 + i % 7));
    REQUIRE(effects.ends.size() == 1);
    drop_messages(pools, effects);
  }
  CHECK(home.calls() == 0);
  CHECK(home.next_deadline() == Instant::max());
}

TEST_CASE("calls that wait to start fail at once when a machine is lost, and so do new ones") {
  const Plan plan = plan_of(joined);
  Pools pools;
  Coordinator home(plan, pools);
  home.wait_for_starts();
  Effects effects;
  for (const std::uint64_t session : {1, 2}) {
    PayloadRef input = make_text("x");
    home.call(session, {&input, 1}, 0s, effects);
  }
  CHECK(effects.messages.empty());
  CHECK(effects.ends.empty());
  home.nodes_lost({1}, effects);
  REQUIRE(effects.ends.size() == 2);
  for (const EndCall& end : effects.ends) CHECK(end.failure->kind == FailureKind::node_lost);
  PayloadRef input = make_text("x");
  home.call(3, {&input, 1}, 0s, effects);
  CHECK(effects.ends.size() == 3);
  CHECK(!home.start_next(effects));
  home.nodes_back({1});
  home.call(4, {&input, 1}, 0s, effects);
  CHECK(effects.ends.size() == 3);
  CHECK(home.start_next(effects));
  drop_messages(pools, effects);
}

TEST_CASE("an engine drops what it holds of a lost home, and nothing of another") {
  const Plan plan = plan_of(joined);
  const NodeId left = plan.find("left")->id;
  Pools one;
  one.self = {1, 4};
  Pools two;
  two.self = {2, 1};
  Coordinator first(plan, one);
  Coordinator second(plan, two);
  Engine engine(plan, left, one);
  Effects effects;
  std::vector<StartActivation> starts;
  for (Coordinator* home : {&first, &second}) {
    PayloadRef input = make_text("x");
    Effects sent;
    const CallId call = home->call(1, {&input, 1}, 0s, sent);
    engine.receive(*first_for(left, sent), effects);
    REQUIRE(effects.starts.size() == 1);
    CHECK(effects.starts[0].call == call);
    starts.push_back(effects.starts[0]);
    effects.clear();
    drop_messages(home == &first ? one : two, sent);
  }
  engine.home_lost({1, 4}, effects);
  REQUIRE(effects.cancels.size() == 1);
  CHECK(effects.cancels[0].activation == starts[0].activation);
  CHECK(effects.messages.empty());
  effects.clear();
  // The role ends: nobody hears of it, and nothing is left.
  engine.ended(starts[0].activation, nullptr, effects);
  CHECK(effects.messages.empty());
  CHECK(engine.counts().activations == 1);

  SECTION("what comes late of the lost home's calls is dropped") {
    Effects sent;
    PayloadRef input = make_text("x");
    first.call(2, {&input, 1}, 0s, sent);
    engine.receive(*first_for(left, sent), effects);
    CHECK(effects.starts.empty());
    CHECK(engine.counts().activations == 1);
    drop_messages(one, sent);
  }
  SECTION("the home's next life is served, from its first call on") {
    Pools again;
    again.self = {1, 5};
    Coordinator next(plan, again);
    Effects sent;
    PayloadRef input = make_text("x");
    const CallId call = next.call(2, {&input, 1}, 0s, sent);
    CHECK(call.number == 1);
    engine.receive(*first_for(left, sent), effects);
    REQUIRE(effects.starts.size() == 1);
    CHECK(effects.starts[0].call == call);
    engine.ended(effects.starts[0].activation, nullptr, effects);
    drop_messages(again, sent);
    drop_messages(one, effects);
  }
  engine.ended(starts[1].activation, nullptr, effects);
  CHECK(engine.counts().activations == 0);
  drop_messages(one, effects);
}
