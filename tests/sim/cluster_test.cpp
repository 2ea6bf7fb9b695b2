// Machines that share nothing: several homes, cut links, machines given up alive, clocks that
// drift.
#include <catch2/catch.hpp>
#include <string>

#include "runtime/membership.h"
#include "runtime/sim/simulation.h"
#include "tests/sanitized.h"
#include "world.h"

using namespace sluice;
using namespace std::chrono_literals;
using sluice::testing::bind;
using sluice::testing::Bound;
using sluice::testing::three_calls;

namespace {

/// Many calls of a few sessions, spread over the time in which faults happen.
Bound many_calls() {
  Bound bound = bind(three_calls);
  const ScriptCall one = bound.script.calls[0];
  bound.script.calls.clear();
  bound.script.sessions = {"a", "b", "c"};
  for (std::uint64_t i = 0; i < 12; ++i) {
    bound.script.calls.push_back(one);
    bound.script.calls.back().session = i % 3;
  }
  return bound;
}

sim::Options on_machines(std::uint32_t machines, std::uint32_t homes) {
  sim::Options options;
  options.machines = machines;
  options.homes = homes;
  options.between_calls = 20ms;
  options.faults.until = 400ms;
  return options;
}

sim::FaultCounts run(const Bound& bound, sim::Options options, std::uint64_t seeds,
                     std::size_t& orphaned) {
  sim::FaultCounts counts;
  for (options.seed = 1; options.seed <= seeds; ++options.seed) {
    const sim::Report report = sim::simulate(bound.plan, bound.script, options);
    INFO("seed " << options.seed);
    for (const std::string& violation : report.violations) UNSCOPED_INFO(violation);
    REQUIRE(report.violations.empty());
    for (const sim::CallReport& call : report.calls) {
      CHECK(call.ended);
      orphaned += call.orphaned ? 1 : 0;
    }
    counts.add(report.faults);
  }
  return counts;
}

}  // namespace

TEST_CASE("what a life says counts until one knows that it is over") {
  Membership peers(3);
  CHECK(peers.accepts({1, 1}));
  CHECK(!peers.accepts({1, 2}));
  peers.lost({1, 1});
  CHECK(!peers.is_there(1));
  CHECK(!peers.accepts({1, 1}));
  peers.joined({1, 2});
  CHECK(peers.is_there(1));
  CHECK(peers.accepts({1, 2}));
  CHECK(!peers.accepts({1, 1}));
  peers.lost({1, 1});  // old news
  CHECK(peers.accepts({1, 2}));
  CHECK(peers.accepts({2, 1}));
}

TEST_CASE("calls come to the same on one machine and on several, with one home and with many") {
  const Bound bound = many_calls();
  const sim::Report first = sim::simulate(bound.plan, bound.script, sim::Options());
  REQUIRE(first.violations.empty());
  for (std::uint32_t machines = 1; machines <= 5; ++machines)
    for (std::uint32_t homes = 1; homes <= machines; ++homes)
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        sim::Options options = on_machines(machines, homes);
        options.seed = seed;
        const sim::Report report = sim::simulate(bound.plan, bound.script, options);
        REQUIRE(report.violations.empty());
        for (std::size_t i = 0; i < report.calls.size(); ++i)
          CHECK(report.calls[i].hash() == first.calls[i].hash());
      }
}

TEST_CASE("calls come to the same where roles are on several machines, and sessions move") {
  const Bound bound = many_calls();
  const sim::Report first = sim::simulate(bound.plan, bound.script, sim::Options());
  sim::FaultCounts counts;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    sim::Options options = on_machines(2 + seed % 4, 1);
    options.spread = 1 + seed % 4;
    options.seed = seed;
    const sim::Report report = sim::simulate(bound.plan, bound.script, options);
    REQUIRE(report.violations.empty());
    for (std::size_t i = 0; i < report.calls.size(); ++i)
      CHECK(report.calls[i].hash() == first.calls[i].hash());
    counts.add(report.faults);
  }
  CHECK(counts.moved == 0);
  sim::Options options = on_machines(4, 1);
  options.spread = 3;
  options.faults.kill = 0.1;
  std::size_t orphaned = 0;
  CHECK(run(bound, options, 200, orphaned).moved > 50);
}

TEST_CASE("each kind of trouble alone comes to an end for every call") {
  const Bound bound = many_calls();
  sim::Options options = on_machines(4, 2);
  std::size_t orphaned = 0;
  SECTION("links that are cut") {
    options.faults.cut = 0.1;
    const sim::FaultCounts counts = run(bound, options, 200, orphaned);
    CHECK(counts.cuts > 100);
    CHECK(counts.cuts_one_way > 100);
    CHECK(counts.suspects > 100);  // where a cut outlives the lease
  }
  SECTION("machines that are given up alive") {
    options.faults.suspect = 0.1;
    const sim::FaultCounts counts = run(bound, options, 200, orphaned);
    CHECK(counts.suspects > 500);
    CHECK(counts.fenced > 500);  // what they went on to say
    CHECK(orphaned > 0);
  }
  SECTION("calls that begin between the verdict over a machine and the news of it") {
    // All that goes on is on its way from one machine to one other; or some of a call runs on a
    // machine that is about to hear that it is lost, and the rest goes on elsewhere.
    const std::string nodes =
        GENERATE("split: { yields: [ [two] ], latency: 0ms }",
                 "split: { yields: [ [one, two] ], latency: 0ms }, left: { yields: [ [y] ], "
                 "latency: 60ms }, right: { yields: [ [y] ], latency: [0ms, 3ms] }");
    Bound busy = sluice::testing::bind(
        "scenario: two ways\nworkflow: diamond.yaml\n"
        "calls: [ { session: a, inputs: { x: v } } ]\nnodes: { " +
        nodes + " }\n");
    const ScriptCall one = busy.script.calls[0];
    busy.script.calls.assign(600, one);
    for (std::size_t i = 0; i < busy.script.calls.size(); ++i) busy.script.calls[i].session = i;
    options.machines = options.homes = 3;
    options.between_calls = 600us;
    options.faults.suspect = 0.1;
    const sim::FaultCounts counts = run(busy, options, testing::seeds(400), orphaned);
    CHECK(counts.suspects > testing::seeds(500));
    CHECK(orphaned > testing::seeds(100));
  }
  SECTION("homes that are lost with their calls") {
    options.faults.kill = 0.1;
    const sim::FaultCounts counts = run(bound, options, 200, orphaned);
    CHECK(counts.homes_lost > 200);
    CHECK(orphaned > 100);
  }
  SECTION("a first machine that is the only home is never lost") {
    options.homes = 1;
    options.faults.kill = options.faults.suspect = options.faults.cut = 0.1;
    const sim::FaultCounts counts = run(bound, options, 100, orphaned);
    CHECK(counts.homes_lost == 0);
    CHECK(orphaned == 0);
  }
  SECTION("clocks that are off and drift, while roles hang and calls are in a hurry") {
    options.faults.drift_ppm = 1000;
    options.faults.hurry = 0.5;
    options.faults.role_hang = 0.05;
    const sim::FaultCounts counts = run(bound, options, 200, orphaned);
    CHECK(counts.hurried > 500);
    CHECK(counts.role_hangs > 100);
    CHECK(orphaned == 0);
  }
}

TEST_CASE("a machine with ill intent harms nobody's calls but its own") {
  const Bound bound = many_calls();
  const sim::Report first = sim::simulate(bound.plan, bound.script, sim::Options());
  REQUIRE(first.violations.empty());
  sim::Options options = on_machines(4, 2);
  options.faults.hostile = 4;  // as often as can be
  std::uint64_t forged = 0;
  std::uint64_t refused = 0;
  for (options.seed = 1; options.seed <= 200; ++options.seed) {
    const sim::Report report = sim::simulate(bound.plan, bound.script, options);
    INFO("seed " << options.seed);
    for (const std::string& violation : report.violations) UNSCOPED_INFO(violation);
    REQUIRE(report.violations.empty());
    for (std::size_t i = 0; i < report.calls.size(); ++i)
      CHECK(report.calls[i].hash() == first.calls[i].hash());
    forged += report.faults.forged;
    refused += report.faults.forged_refused;
  }
  CHECK(refused > 1000);
  CHECK(forged - refused > 1000);  // of its own calls, and taken
}

TEST_CASE("a call whose home is lost ends for its caller with that, and no other does") {
  const Bound bound = many_calls();
  sim::Options options = on_machines(3, 3);
  options.faults.kill = 0.2;
  std::size_t lost = 0;
  for (options.seed = 1; options.seed <= 100; ++options.seed) {
    const sim::Report report = sim::simulate(bound.plan, bound.script, options);
    REQUIRE(report.violations.empty());
    for (const sim::CallReport& call : report.calls) {
      if (!call.orphaned) continue;
      ++lost;
      REQUIRE(call.failure != nullptr);
      CHECK(call.failure->kind == FailureKind::node_lost);
      CHECK(call.failure->error.message == "the machine that had taken the call is gone");
    }
  }
  CHECK(lost > 50);
}

TEST_CASE("calls come to the same results on one machine and on a thousand") {
  const Bound bound = many_calls();
  const sim::Report one = sim::simulate(bound.plan, bound.script, on_machines(1, 1));
  const sim::Report many = sim::simulate(bound.plan, bound.script, on_machines(1000, 3));
  REQUIRE(one.violations.empty());
  REQUIRE(many.violations.empty());
  REQUIRE(one.calls.size() == many.calls.size());
  for (std::size_t i = 0; i < one.calls.size(); ++i) {
    CHECK(many.calls[i].ended);
    CHECK(many.calls[i].hash() == one.calls[i].hash());
  }
}
