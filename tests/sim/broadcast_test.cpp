// Nodes that run on each replica (`balance: broadcast`) in the simulator, whose oracle holds every
// set of inputs to C28: with and without faults.
#include <catch2/catch.hpp>

#include "runtime/sim/simulation.h"
#include "watched.h"

using namespace sluice;
using namespace std::chrono_literals;
using sluice::testing::Bound;
using sluice::testing::bound_to;
using sluice::testing::planned;
using sluice::testing::Watched;

namespace {

/// Judges who see what is filmed; joins, counts, orders and a loop stand behind them.
const std::string jury = R"(
sluice: 1
workflow: jury
inputs: { x: text }
calls: overlap
roles:
  camera: { plugin: scripted }
  judge: { plugin: scripted, replicas: 3, balance: broadcast }
  policy: { plugin: scripted, balance: session }
nodes:
  film: { run: camera.film, inputs: [ { x: inputs.x } ], outputs: [ image ] }
  see: { run: judge.see, inputs: [ { image: film.image } ], outputs: [ mark, doubt ] }
  hear: { run: judge.hear, inputs: [ { x: inputs.x } ], outputs: [ word ], on_full: drop_oldest }
  sum: { run: judge.sum, inputs: [ { marks: see.mark, image: film.image } ], outputs: [ all ] }
  act: { run: policy.act, inputs: [ { mark: see.mark }, { word: hear.word } ], outputs: [ move ] }
  first:
    run: judge.first
    inputs: [ { doubts: see.doubt } ]
    count: { doubts: 2 }
    outputs: [ doubt ]
outputs: { move: act.move, sum: sum.all, doubt: first.doubt }
)";

Bound bound(std::size_t calls, const std::string& scripts) {
  Bound made;
  made.plan = planned(jury);
  std::string text = "scenario: jury\nworkflow: jury.yaml\ncalls:\n";
  for (std::size_t i = 0; i < calls; ++i)
    text += "  - { session: " + std::string(1, static_cast<char>('a' + i % 3)) +
            ", inputs: { x: v } }\n";
  LoadedScenario loaded = load_scenario("s.yaml", text + "nodes:\n" + scripts);
  made.script = bind_scenario(loaded.spec, made.plan, loaded.diagnostics);
  for (const Diagnostic& d : loaded.diagnostics) INFO(d.message);
  REQUIRE(!has_errors(loaded.diagnostics));
  return made;
}

const std::string plain = R"(
  film: { yields: [ [image], [image], [image] ], latency: [0ms, 4ms] }
  see: { by_replica: [ [ [mark], [mark, doubt] ], [ ], [ [doubt], [mark] ] ], latency: [0ms, 9ms] }
  sum: { latency: [0ms, 9ms] }
)";

std::string problems(const std::string& workflow, const std::string& node) {
  const Plan plan = planned(workflow);
  LoadedScenario loaded = load_scenario(
      "s.yaml", "scenario: s\nworkflow: w.yaml\ncalls: [ {} ]\nnodes: { " + node + " }\n");
  (void)bind_scenario(loaded.spec, plan, loaded.diagnostics);
  std::string text;
  for (const Diagnostic& d : loaded.diagnostics)
    if (d.severity == Severity::error)
      text += std::to_string(d.mark.line) + ": " + d.message + " (" + d.suggestion + ")";
  return text;
}

}  // namespace

TEST_CASE("without faults each replica yields by its script, whatever the order of events") {
  const Bound made = bound(2, plain);
  std::uint64_t firings = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    sim::Options options;
    options.seed = seed;
    options.machines = 1 + seed % 4;
    options.queue_at_replicas = seed % 2 == 0;
    const sim::Report report = sim::simulate(made.plan, made.script, options);
    for (const std::string& what : report.violations) FAIL(what);
    for (const sim::CallReport& call : report.calls) {
      CHECK(call.failure == nullptr);
      CHECK(call.outputs[0] == 3 * 3 + 3);  // marks, and words
      CHECK(call.outputs[1] == 3 * 3);
      CHECK(call.outputs[2] == 3);
      if (seed == 1) firings = call.firings_hash;
    }
    CHECK(report.calls[0].firings_hash == report.calls[0].firings_hash);
  }
  CHECK(firings != 0);
}

TEST_CASE("a replica that is told to fail is the call's failure, and the others go on") {
  const Bound made = bound(1, "  see: { fail_on_replica: 1 }\n");
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    sim::Options options;
    options.seed = seed;
    const sim::Report report = sim::simulate(made.plan, made.script, options);
    for (const std::string& what : report.violations) FAIL(what);
    REQUIRE(report.calls[0].failure != nullptr);
    CHECK(report.calls[0].failure->node == made.plan.find("see")->id);
    CHECK(report.calls[0].outputs[0] == 2 + 3);
    CHECK(report.calls[0].outputs[1] == 3);
  }
}

TEST_CASE("under every kind of fault each set of inputs runs on each replica once") {
  const Bound made = bound(9, plain);
  std::uint64_t failures = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    sim::Options options;
    options.seed = seed;
    options.machines = 2 + seed % 4;
    options.queue_at_replicas = seed % 2 == 0;
    options.between_calls = 15ms;
    options.faults = sim::all_faults();
    const sim::Report report = sim::simulate(made.plan, made.script, options);
    for (const std::string& what : report.violations) FAIL(what);
    failures += report.faults.role_failures;
  }
  CHECK(failures > 300);
}

TEST_CASE("the oracle sees a set of inputs that runs on other than each replica once") {
  Watched w(bound_to(jury));
  const auto frame = w.begin(0);
  const auto film = w.start("film", {{"x", frame}});
  const auto one = w.oracle.yielded(film), other = w.oracle.yielded(film);
  const auto see = [&](sim::FrameNumber image, std::uint32_t replica) {
    w.start("see", {{"image", image}}, {.replica = replica});
    return w.said();
  };
  for (std::uint32_t replica = 0; replica < 3; ++replica) CHECK(see(one, replica).empty());
  w.oracle.check_alive({0});
  CHECK(w.said().empty());

  CHECK(see(other, 0).empty());
  w.oracle.check_alive({0});
  CHECK(w.said() ==
        "C28: call 0, one set of inputs for node 'see' has begun on 1 replicas of 3");
  const std::string begins = "C28: call 0, node 'see' group 0 begins on replica ";
  CHECK(see(other, 0) == begins + "0, and one set of inputs for 'see' has begun on 1");
  CHECK(see(other, 2).empty());
  CHECK(see(one, 1) == begins + "1, and one set of inputs for 'see' has begun on 0");
  CHECK(see(other, 1) == begins + "1, and one set of inputs for 'see' has begun on 1");
}

TEST_CASE("the oracle sees replicas that come out of their order") {
  Watched w(bound_to(jury));
  const auto film = w.start("film", {{"x", w.begin(0)}});
  const auto image = w.oracle.yielded(film), next = w.oracle.yielded(film);
  std::vector<sim::FrameNumber> marks;
  for (const sim::FrameNumber seen : {image, next})
    for (std::uint32_t replica = 0; replica < 3; ++replica)
      marks.push_back(
          w.oracle.yielded(w.start("see", {{"image", seen}}, {.replica = replica})));
  CHECK(w.said().empty());
  const auto act = [&](std::size_t mark) {
    w.start("act", {{"mark", marks[mark]}});
    return w.said();
  };
  const std::string wrong = "C5: call 0, node 'act' group 0 was released out of order";
  CHECK(act(0).empty());
  CHECK(act(2).empty());
  CHECK(act(1) == wrong);
  CHECK(act(3).empty());
  CHECK(act(2) == wrong);
  CHECK(act(5).empty());
  CHECK(act(4) == wrong);
}

TEST_CASE("the oracle sees more run at once than a node that drops may") {
  Watched w(bound_to(jury));
  const auto frame = w.begin(0), other = w.oracle.yielded(w.oracle.entry_of(0));
  std::vector<sim::ActivationNumber> running;
  for (std::uint32_t replica = 0; replica < 3; ++replica)
    running.push_back(w.start("hear", {{"x", frame}}, {.replica = replica}));
  CHECK(w.said().empty());
  w.oracle.ended(running[1]);
  w.start("hear", {{"x", other}}, {.replica = 0});
  CHECK(w.said().empty());
  w.start("hear", {{"x", other}}, {.replica = 1});
  CHECK(w.said() == "C27: call 0, node 'hear' group 0 makes 4 run, of 3 that may");
}

TEST_CASE("only a node that runs on each replica has a script for each") {
  const std::string elsewhere =
      "4: 'act' runs on one replica of its role, and which one is not said (give the role "
      "`balance: broadcast`, or remove `";
  CHECK(problems(jury, "act: { by_replica: [ [ [move] ] ] }") == elsewhere + "by_replica`)");
  CHECK(problems(jury, "act: { fail_on_replica: 0 }") == elsewhere + "fail_on_replica`)");
  CHECK(problems(jury, "see: { by_replica: [ [ [mark] ], [ ], [ ] ], fail_on_replica: 2 }") == "");
  CHECK(problems(jury, "see: { by_replica: [ [ ], [ ], [ ], [ ] ] }") ==
        "4: by_replica of 'see' speaks of replica 3, counted from 0, and its role has 3 replicas "
        "(replicas are 0 to 2)");
  CHECK(problems(jury, "see: { fail_on_replica: 3 }") ==
        "4: fail_on_replica of 'see' speaks of replica 3, counted from 0, and its role has 3 "
        "replicas (replicas are 0 to 2)");
}

TEST_CASE("a firing on each replica says on which, in its identity too") {
  const Bound made = bound_to(jury);
  StartActivation start;
  start.node = made.plan.find("see")->id;
  start.replica = 2;
  std::vector<InputValue> inputs{{0, sim::token_payload(9, 0, 0)}};
  start.inputs = inputs;
  const sim::Firing firing = sim::firing_of(made.plan, start, 0);
  CHECK(firing.replica == 2);
  CHECK(sim::identity_of(made.plan, firing) == "see@2|0|image=0000000000000009");
  start.node = made.plan.find("film")->id;
  CHECK(sim::identity_of(made.plan, sim::firing_of(made.plan, start, 0)) ==
        "film|0|x=0000000000000009");
}
