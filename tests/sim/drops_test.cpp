// Nodes with `on_full: drop_oldest` in the simulator, whose oracle holds every drop to C27: with
// and without faults, and windows of one frame.
#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/sim/simulation.h"
#include "world.h"

using namespace sluice;
using namespace std::chrono_literals;
using sluice::testing::Bound;
using sluice::testing::planned;

namespace {

/// A camera; what sees, judges and acts is slower. Joins, a count and an order stand behind it.
Bound film(const std::string& calls) {
  Bound bound;
  bound.plan = planned(R"(
sluice: 1
workflow: film
inputs: { x: text }
calls: overlap
roles:
  camera: { plugin: scripted }
  eye: { plugin: scripted, replicas: 2 }
  policy: { plugin: scripted, balance: session }
  other: { plugin: scripted }
nodes:
  film: { run: camera.film, inputs: [ { x: inputs.x } ], outputs: [ image, sound ] }
  crop: { run: other.crop, inputs: [ { image: film.image } ], outputs: [ image ] }
  see:
    run: eye.see
    inputs: [ { image: film.image } ]
    outputs: [ boxes ]
    on_full: drop_oldest
    queue: 2
  hear: { run: other.hear, inputs: [ { sound: film.sound } ], outputs: [ words ] }
  judge:
    run: eye.judge
    inputs: [ { boxes: see.boxes, words: hear.words } ]
    outputs: [ plan ]
    on_full: drop_oldest
  act:
    run: policy.act
    inputs: [ { image: crop.image } ]
    outputs: [ move ]
    on_full: drop_oldest
  all: { run: other.all, inputs: [ { move: act.move } ], count: { move: all }, outputs: [ sum ] }
outputs: { move: act.move, plan: judge.plan, sum: all.sum }
)");
  LoadedScenario loaded = load_scenario("s.yaml", R"(
scenario: film
workflow: film.yaml
calls:
)" + calls + R"(nodes:
  film:
    yields: [ [image], [image, sound], [image], [image, sound], [sound], [image], [image], [image] ]
    latency: [4ms, 8ms]
  crop: { latency: [0ms, 6ms] }
  see: { latency: [1ms, 9ms] }
  judge: { latency: [5ms, 9ms] }
  act: { latency: [2ms, 5ms] }
)");
  bound.script = bind_scenario(loaded.spec, bound.plan, loaded.diagnostics);
  REQUIRE(!has_errors(loaded.diagnostics));
  return bound;
}

std::string calls_of(std::size_t count) {
  std::string calls;
  for (std::size_t i = 0; i < count; ++i)
    calls += "  - { session: " + std::string(1, static_cast<char>('a' + i % 3)) +
             ", inputs: { x: v } }\n";
  return calls;
}

}  // namespace

TEST_CASE("without faults each call ends well, and what was dropped is told") {
  const Bound bound = film(calls_of(3));
  std::uint64_t dropped = 0;
  std::vector<std::size_t> longest(bound.plan.nodes.size(), 0);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    sim::Options options;
    options.seed = seed;
    options.machines = 1 + seed % 4;
    const sim::Report report = sim::simulate(bound.plan, bound.script, options);
    for (const std::string& what : report.violations) FAIL(what);
    for (const sim::CallReport& call : report.calls) {
      CHECK(call.failure == nullptr);
      CHECK(call.outputs[bound.plan.outputs.size() - 1] == 1);  // the count's: it hears of the end
    }
    dropped += report.faults.dropped;
    for (std::size_t id = 0; id < longest.size(); ++id)
      longest[id] = std::max(longest[id], report.queue_peaks[id]);
  }
  CHECK(dropped > 1000);
  // What waits at a node that drops is among the longest queues, up to what the node says.
  for (const PlanNode& node : bound.plan.nodes)
    if (node.name == "see" || node.name == "act") CHECK(longest[node.id] == node.queue_max);
}

TEST_CASE("under every kind of fault drops keep their rule") {
  const Bound bound = film(calls_of(9));
  std::uint64_t dropped = 0, stopped = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    INFO("seed " << seed);
    sim::Options options;
    options.seed = seed;
    options.machines = 2 + seed % 4;
    options.queue_at_replicas = seed % 2 == 0;
    options.between_calls = 15ms;
    options.faults = sim::all_faults();
    const sim::Report report = sim::simulate(bound.plan, bound.script, options);
    for (const std::string& what : report.violations) FAIL(what);
    dropped += report.faults.dropped;
    stopped += report.faults.stopped;
  }
  CHECK(dropped > 3000);
  CHECK(stopped > 100);
}

TEST_CASE("the same workflow without the key drops nothing and runs every frame") {
  Bound bound = film(calls_of(2));
  for (PlanNode& node : bound.plan.nodes) node.queue_max = 0;
  sim::Options options;
  const sim::Report report = sim::simulate(bound.plan, bound.script, options);
  CHECK(report.violations.empty());
  CHECK(report.faults.dropped == 0);
  for (const sim::CallReport& call : report.calls) CHECK(call.outputs[0] == 7);
}
