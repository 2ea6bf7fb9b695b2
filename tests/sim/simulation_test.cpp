// The simulator: the same seed gives the same events, links repeat what was lost, planted faults
// are seen.
#include "runtime/sim/simulation.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "base/random.h"
#include "graph/credit.h"
#include "runtime/link.h"
#include "runtime/sim/oracle.h"
#include "world.h"

using namespace sluice;
using sluice::testing::bind;
using sluice::testing::Bound;
using sluice::testing::three_calls;

TEST_CASE("the same seed gives the same events, another seed gives others") {
  const Bound bound = bind(three_calls);
  sim::Options options;
  options.machines = 3;
  options.faults = sim::all_faults();
  const sim::Report one = sim::simulate(bound.plan, bound.script, options);
  const sim::Report two = sim::simulate(bound.plan, bound.script, options);
  CHECK(one.hash == two.hash);
  CHECK(one.events == two.events);
  options.seed = 2;
  CHECK(sim::simulate(bound.plan, bound.script, options).hash != one.hash);
}

TEST_CASE("every order of events gives the same calls") {
  const Bound bound = bind(three_calls);
  sim::Options options;
  const sim::Report first = sim::simulate(bound.plan, bound.script, options);
  REQUIRE(first.violations.empty());
  REQUIRE(first.calls.size() == 3);
  CHECK(first.calls[0].outputs == std::vector<std::uint64_t>{2});
  for (std::uint64_t seed = 2; seed < 300; ++seed) {
    options.seed = seed;
    const sim::Report report = sim::simulate(bound.plan, bound.script, options);
    CHECK(report.violations.empty());
    for (std::size_t i = 0; i < 3; ++i) CHECK(report.calls[i].hash() == first.calls[i].hash());
  }
}

TEST_CASE("past its deadline a call does not wait for its turn at a replica") {
  // 100 calls of one second each for one replica: the deadline ends those that wait too.
  Bound bound = bind(R"(
scenario: many
workflow: diamond.yaml
calls: [ { session: a, inputs: { x: v } } ]
nodes:
  split: { yields: [ [one, two] ] }
  right: { yields: [ [y] ], latency: 1s }
)");
  bound.script.calls.clear();
  for (std::uint64_t i = 0; i < 100; ++i) bound.script.calls.push_back({i, 1, {1}});
  bound.script.sessions.assign(100, "s");
  bound.plan.limits.deadline = std::chrono::milliseconds(1500);
  sim::Options options;
  options.queue_at_replicas = true;
  const sim::Report report = sim::simulate(bound.plan, bound.script, options);
  CHECK(report.violations.empty());
  std::size_t late = 0;
  for (const sim::CallReport& call : report.calls) late += call.failure ? 1 : 0;
  CHECK(late > 90);
  CHECK(report.finished < std::chrono::seconds(3));  // the one that runs is let to its end
}

TEST_CASE("in a closed loop the next call arrives at the moment that one ends") {
  Bound bound = bind(three_calls);
  const ScriptCall one = bound.script.calls[0];
  bound.script.calls.assign(200, one);
  bound.script.sessions = {"a", "b", "c"};
  for (std::size_t i = 0; i < bound.script.calls.size(); ++i) bound.script.calls[i].session = i % 3;
  sim::Options options;
  const std::uint64_t at_all = sim::simulate(bound.plan, bound.script, options).hash;
  options.at_once = 5;
  const sim::Report report = sim::simulate(bound.plan, bound.script, options);
  REQUIRE(report.violations.empty());
  std::vector<Instant> ends;
  for (const sim::CallReport& call : report.calls) ends.push_back(call.done);
  std::ranges::sort(ends);
  for (std::size_t i = 0; i < report.calls.size(); ++i)
    CHECK(report.calls[i].arrived == (i < 5 ? Instant{} : ends[i - 5]));
  CHECK(ends.back() > Instant{});
  // As many as there are, or more, is all of them at the beginning.
  options.at_once = GENERATE(200, 1000);
  CHECK(sim::simulate(bound.plan, bound.script, options).hash == at_all);
}

TEST_CASE("a closed loop goes on when calls fail, and when their homes are lost") {
  Bound bound = bind(three_calls);
  const ScriptCall one = bound.script.calls[0];
  bound.script.calls.assign(60, one);
  bound.script.sessions = {"a", "b", "c"};
  for (std::size_t i = 0; i < bound.script.calls.size(); ++i) bound.script.calls[i].session = i % 3;
  sim::Options options;
  options.machines = options.homes = 3;
  options.at_once = 4;
  options.faults = sim::all_faults();
  std::size_t orphaned = 0;
  for (options.seed = 1; options.seed <= 50; ++options.seed) {
    const sim::Report report = sim::simulate(bound.plan, bound.script, options);
    INFO("seed " << options.seed);
    CHECK(report.violations.empty());
    for (const sim::CallReport& call : report.calls) orphaned += call.orphaned ? 1 : 0;
  }
  CHECK(orphaned > 20);
}

TEST_CASE("a link repeats what was not applied, and applies nothing twice") {
  LinkSender<int> sender(8);
  LinkReceiver receiver;
  for (int i = 1; i <= 5; ++i) CHECK(sender.send(i) == static_cast<std::uint64_t>(i));
  CHECK(receiver.take(1) == LinkReceiver::Verdict::apply);
  CHECK(receiver.take(1) == LinkReceiver::Verdict::duplicate);
  CHECK(receiver.take(2) == LinkReceiver::Verdict::apply);
  CHECK(receiver.take(4) == LinkReceiver::Verdict::gap);
  sender.applied(1);
  std::vector<int> again;
  sender.resume(receiver.applied(), [&](std::uint64_t, int item) { again.push_back(item); });
  CHECK(again == std::vector<int>{3, 4, 5});
  CHECK(sender.size() == 3);
}

TEST_CASE("the oracle sees a firing that comes twice, and an output after the end") {
  const Bound bound = bind(three_calls);
  sim::Oracle oracle(bound.plan, bound.script);
  oracle.call_arrived(0, 0);
  oracle.call_named(0, {1, {}}, Instant{}, Instant::max());
  const sim::FrameNumber frame = oracle.yielded(oracle.entry_of(0));
  InputValue input{0, sim::token_payload(7, frame, 0)};
  StartActivation start;
  start.node = bound.plan.find("split")->id;
  start.call = {1, {}};
  start.inputs = std::span(&input, 1);
  const sim::Firing firing = sim::firing_of(bound.plan, start, 0);
  oracle.started(start, firing, 1);
  CHECK(oracle.violations().empty());
  oracle.started(start, firing, 1);
  REQUIRE(oracle.violations().size() == 1);
  CHECK(oracle.violations()[0].starts_with("C1"));
  EndCall end;
  end.call = {1, {}};
  oracle.call_ended(end, Instant{});
  CHECK(oracle.violations().back().starts_with("C9"));
  oracle.delivered({{1, {}}, 0, input.value});
  CHECK(oracle.violations().back().starts_with("C7"));
}

TEST_CASE("credit adds up to the whole in any order, however fine its parts") {
  SplitMix64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Credit> parts{Credit::whole()};
    for (int i = 0; i < 400; ++i) {
      Credit& one = parts[random.next() % parts.size()];
      one.refine();
      parts.push_back(one.take(1 + random.next() % (one.amount - 1)));
    }
    CreditSum sum;
    while (!parts.empty()) {
      CHECK(!sum.complete());
      const std::size_t at = random.next() % parts.size();
      Credit held = parts[at];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
      if (!parts.empty() && held.absorb(parts.back())) parts.pop_back();
      sum.add(held);
    }
    CHECK(sum.complete());
  }
}
