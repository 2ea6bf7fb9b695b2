// A node of a `balance: broadcast` role: each set of inputs runs on each replica, in whatever order
// they answer, and what they make is one stream in their order.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <iterator>

#include "base/random.h"
#include "graph/print.h"
#include "harness.h"

using namespace sluice;
using sluice::testing::Firing;
using sluice::testing::Harness;
using sluice::testing::Yields;

namespace {

using Texts = std::vector<std::string>;

const std::string head = R"(
sluice: 1
workflow: jury
inputs: { x: json }
roles:
  any: { plugin: scripted }
  judge: { plugin: scripted, replicas: 3, balance: broadcast }
  talk: { plugin: scripted, balance: session }
)";

/// The values of an output, without what they came from.
Texts made(const Harness& harness, const CallId& call, const std::string& output = "out") {
  Texts texts;
  const auto found = harness.outputs.find(call);
  if (found == harness.outputs.end()) return texts;
  for (const auto& [name, value] : found->second)
    if (name == output) texts.push_back(value.substr(0, value.find('<')));
  return texts;
}

Texts short_of(Texts values) {
  for (std::string& value : values) value.resize(value.find('<'));
  return values;
}

std::vector<Firing> firings_of(const Harness& harness, const std::string& node) {
  std::vector<Firing> found;
  std::ranges::copy_if(harness.firings, std::back_inserter(found),
                       [&](const Firing& firing) { return firing.node == node; });
  return found;
}

/// Another order of answers for each seed, with the last frame and the end in one step or in two.
void shuffle(Harness& harness, std::uint64_t seed) {
  harness.pick = [random = SplitMix64(seed)](std::size_t count) mutable {
    return static_cast<std::size_t>(random.next() % count);
  };
  harness.merge_last = seed % 2 == 0;
}

const std::string ask = "  ask: { run: judge.ask, inputs: [ { x: inputs.x } ], outputs: [v, w] }\n";

}  // namespace

TEST_CASE("each set of inputs runs on each replica, and outputs come in their order") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    INFO(seed);
    Harness harness(head + "nodes:\n" + ask + "outputs: { out: ask.v }\n");
    shuffle(harness, seed);
    harness.yields["ask@1"] = {{"v"}, {"w"}, {"v"}};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    CHECK(made(harness, call) == Texts{"ask@0#0", "ask@1#0", "ask@1#2", "ask@2#0"});
    REQUIRE(harness.firings.size() == 3);
    for (const Firing& firing : harness.firings) CHECK(firing.inputs.at("x") == Texts{"x"});
    require_clean(harness);
  }
}

TEST_CASE("a join with its root before the node collects what all replicas made, in their order") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    INFO(seed);
    Harness harness(head + R"(
nodes:
  film: { run: any.film, inputs: [ { x: inputs.x } ], outputs: [x] }
  ask: { run: judge.ask, inputs: [ { x: film.x } ], outputs: [v] }
  gather: { run: any.gather, inputs: [ { v: ask.v, x: film.x } ], outputs: [v] }
outputs: { out: gather.v }
)");
    shuffle(harness, seed);
    harness.yields["film"] = {{"x"}, {"x"}};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    const std::vector<Firing> gathered = firings_of(harness, "gather");
    REQUIRE(gathered.size() == 2);
    for (const Firing& firing : gathered)
      CHECK(short_of(firing.inputs.at("v")) == Texts{"ask@0#0", "ask@1#0", "ask@2#0"});
    CHECK(made(harness, call).size() == 2);
    require_clean(harness);
  }
}

TEST_CASE("a join of what descends from the node runs for each frame of each replica") {
  Harness harness(head + "nodes:\n" + ask + R"(
  one: { run: any.one, inputs: [ { v: ask.v } ], outputs: [v] }
  other: { run: any.other, inputs: [ { w: ask.w } ], outputs: [v] }
  both: { run: talk.both, inputs: [ { a: one.v, b: other.v } ], outputs: [v] }
outputs: { out: both.v }
)");
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    INFO(seed);
    harness.firings.clear();
    shuffle(harness, seed);
    harness.yields["ask@2"] = {{"v", "w"}, {"v"}, {"v", "w"}};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    Texts triggers;
    for (const Firing& firing : firings_of(harness, "both")) {
      const std::string& from = firing.inputs.at("a").front();
      triggers.push_back(from.substr(6, from.find('<', 6) - 6));
    }
    // A session node: in order, whichever came first.
    CHECK(triggers == Texts{"ask@0#0", "ask@1#0", "ask@2#0", "ask@2#2"});
    require_clean(harness);
  }
}

TEST_CASE("a count takes the first of the replicas, not the first to come") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    INFO(seed);
    Harness harness(head + "nodes:\n" + ask + R"(
  first: { run: judge.first, inputs: [ { v: ask.v } ], count: { v: 2 }, outputs: [v] }
  then: { run: any.then, inputs: [ { v: first.v } ], outputs: [v] }
outputs: { out: then.v }
)");
    shuffle(harness, seed);
    harness.yields["ask@0"] = {};
    harness.yields["first@1"] = {{"v"}, {"v"}};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    const std::vector<Firing> firings = firings_of(harness, "first");
    REQUIRE(firings.size() == 3);
    for (const Firing& firing : firings)
      CHECK(short_of(firing.inputs.at("v")) == Texts{"ask@1#0", "ask@2#0"});
    // The count's node numbers its activations: what it leads to is ordered by the replicas too.
    Texts order;
    for (const auto& [name, value] : harness.outputs[call])
      order.push_back(value.substr(7, value.find('<', 7) - 7));
    CHECK(order == Texts{"first@0#0", "first@1#0", "first@1#1", "first@2#0"});
    require_clean(harness);
  }
}

TEST_CASE("by paths too the replicas stand in their order") {
  // Two ways of one frame bring the field, so the count looks at paths.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    INFO(seed);
    Harness harness(head + R"(
nodes:
  film: { run: any.film, inputs: [ { x: inputs.x } ], outputs: [x] }
  ask: { run: judge.ask, inputs: [ { x: film.x } ], outputs: [v] }
  self: { run: any.self, inputs: [ { n: inputs.x }, { x: film.x } ], outputs: [v] }
  first: { run: any.first, inputs: [ { v: [ask.v, self.v] } ], count: { v: 6 }, outputs: [v] }
outputs: { out: first.v }
)");
    shuffle(harness, seed);
    harness.yields["film"] = {{"x"}, {"x"}};
    harness.yields["self"] = {};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    const std::vector<Firing> firings = firings_of(harness, "first");
    REQUIRE(firings.size() == 1);
    Texts values = firings[0].inputs.at("v");
    CHECK(values[0].starts_with("ask@0#0<film#0"));
    CHECK(values[2].starts_with("ask@2#0<film#0"));
    CHECK(values[3].starts_with("ask@0#0<film#1"));
    CHECK(short_of(values) ==
          Texts{"ask@0#0", "ask@1#0", "ask@2#0", "ask@0#0", "ask@1#0", "ask@2#0"});
    require_clean(harness);
  }
}

TEST_CASE("a replica that fails takes nothing from the others, and the call names its node") {
  const std::string join = "  gather: { run: any.gather, inputs: [ { v: ask.v, x: inputs.x } ], "
                           "outputs: [v] }\noutputs: { out: gather.v, each: ask.v }\n";
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    INFO(seed);
    Harness harness(head + "nodes:\n" + ask + join);
    shuffle(harness, seed);
    harness.fails["ask@1"] = true;
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ask@1 was told to fail by x");
    CHECK(made(harness, call, "each") == Texts{"ask@0#0", "ask@2#0"});
    REQUIRE(firings_of(harness, "gather").size() == 1);
    CHECK(short_of(firings_of(harness, "gather")[0].inputs.at("v")) ==
          Texts{"ask@0#0", "ask@2#0"});
    require_clean(harness);
  }
}

TEST_CASE("of replicas that all fail the same is told in every order, and each skipped one warns") {
  std::string yaml = head + "nodes:\n" + ask + "outputs: { out: ask.v }\n";
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Harness harness(yaml);
    shuffle(harness, seed);
    harness.fails["ask"] = true;
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ask@0 was told to fail by x");
  }
  yaml.replace(yaml.find("outputs: [v, w] }"), 15, "on_error: skip, outputs: [v, w]");
  Harness harness(yaml);
  harness.fails["ask@0"] = harness.fails["ask@2"] = true;
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  CHECK(made(harness, call) == Texts{"ask@1#0"});
  std::ranges::sort(harness.warnings);
  CHECK(harness.warnings ==
        Texts{"ask failed and was skipped: ask@0 was told to fail by x",
              "ask failed and was skipped: ask@2 was told to fail by x"});
}

TEST_CASE("with on_full sets wait whole, and the next begins when all replicas have ended one") {
  std::string yaml = head + R"(
nodes:
  film: { run: any.film, inputs: [ { x: inputs.x } ], outputs: [x] }
  ask: { run: judge.ask, inputs: [ { x: film.x } ], on_full: drop_oldest, queue: 2, outputs: [v] }
outputs: { out: ask.v }
)";
  Harness harness(yaml);
  harness.yields["film"] = Yields(7, {"x"});
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  Texts ran;
  for (const Firing& firing : firings_of(harness, "ask"))
    ran.push_back(firing.inputs.at("x").front().substr(5, 1) + "@" +
                  std::to_string(firing.replica));
  // The first had begun, the newest two waited.
  std::ranges::sort(ran);
  CHECK(ran == Texts{"0@0", "0@1", "0@2", "5@0", "5@1", "5@2", "6@0", "6@1", "6@2"});
  CHECK(harness.warnings == Texts{"ask: inputs that waited were dropped for newer ones (on_full: "
                                  "drop_oldest, queue: 2) (4 times)"});
  require_clean(harness);
}

TEST_CASE("a loop over all replicas goes round by a join that collects them") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    INFO(seed);
    Harness harness(head + R"(
nodes:
  begin: { run: any.begin, inputs: [ { x: inputs.x }, { x: decide.again } ], outputs: [x] }
  ask: { run: judge.ask, inputs: [ { x: begin.x } ], outputs: [v] }
  decide: { run: any.decide, inputs: [ { v: ask.v, x: begin.x } ], outputs: [again, done] }
outputs: { out: decide.done }
limits: { loop_iterations: 5 }
)");
    shuffle(harness, seed);
    harness.yields["decide"] = {{"again"}};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call].find("reached the limit of 5 loop iterations") !=
          std::string::npos);
    CHECK(firings_of(harness, "ask").size() == 15);
    CHECK(firings_of(harness, "decide").size() == 5);
    require_clean(harness);
  }
}

TEST_CASE("what may not run any more ends once, not on each replica") {
  Harness harness(head + R"(
nodes:
  ask: { run: judge.ask, inputs: [ { x: inputs.x }, { x: ask.v } ], outputs: [v] }
  gather: { run: any.gather, inputs: [ { v: ask.v, x: inputs.x } ], outputs: [v] }
outputs: { out: gather.v }
limits: { loop_iterations: 4 }
)");
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call].find("reached the limit of 4 loop iterations") != std::string::npos);
  CHECK(firings_of(harness, "ask").size() == 3 + 9 + 27 + 81);
  // Each of the frames of the last turn came back once, and ran on none.
  REQUIRE(firings_of(harness, "gather").size() == 1);
  CHECK(firings_of(harness, "gather")[0].inputs.at("v").size() == 120);
  require_clean(harness);
}

TEST_CASE("many replicas behind one another leave room for every share") {
  // 256 times 4 times 4, of frames deep in a stream: parts become too small to divide.
  Harness harness(R"(
sluice: 1
workflow: wide
inputs: { x: json }
roles:
  any: { plugin: scripted }
  many: { plugin: scripted, replicas: 256, balance: broadcast }
  four: { plugin: scripted, replicas: 4, balance: broadcast }
  talk: { plugin: scripted, balance: session }
nodes:
  film: { run: any.film, inputs: [ { x: inputs.x } ], outputs: [x] }
  a: { run: many.a, inputs: [ { x: film.x } ], outputs: [v] }
  b: { run: four.b, inputs: [ { x: a.v } ], outputs: [v] }
  c: { run: four.c, inputs: [ { x: b.v } ], outputs: [v] }
  last: { run: talk.last, inputs: [ { v: c.v } ], outputs: [v] }
outputs: { out: last.v }
)");
  shuffle(harness, 7);
  harness.yields["film"] = Yields(3, {"x"});
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  CHECK(firings_of(harness, "last").size() == 3 * 256 * 16);
  Texts order;
  for (const Firing& firing : firings_of(harness, "last"))
    order.push_back(firing.inputs.at("v").front());
  const auto place = [](const std::string& value) {  // "c@0#0<b@0#0<a@17#0<film#2<x>>>>"
    const std::size_t b = value.find("<b@"), a = value.find("<a@"), film = value.find("<film#");
    return std::array{std::stoul(value.substr(film + 6)), std::stoul(value.substr(a + 3)),
                      std::stoul(value.substr(b + 3)), std::stoul(value.substr(2))};
  };
  CHECK(std::ranges::is_sorted(order, {}, place));
  require_clean(harness);
}

TEST_CASE("a call that is cancelled is cancelled on each replica, and one replica alone is any") {
  Harness harness(head + "nodes:\n" + ask + "outputs: { out: ask.v }\n");
  const CallId call = harness.call();
  harness.loop().run();
  harness.loop().cancel(call);
  harness.run();
  CHECK(harness.status.contains(call));
  CHECK(harness.status[call] != "ok");
  require_clean(harness);

  std::string yaml = head + "nodes:\n" + ask + "outputs: { out: ask.v }\n";
  yaml.replace(yaml.find("replicas: 3, "), 13, "");
  Harness single(yaml);
  const CallId one = single.call();
  single.run();
  CHECK(made(single, one) == Texts{"ask#0"});
}

TEST_CASE("plans say where a node runs on each replica, and bound what it makes") {
  Harness harness(head + R"(
nodes:
  ask: { run: judge.ask, inputs: [ { x: inputs.x } ], outputs: [v] }
  then: { run: judge.then, inputs: [ { v: inputs.x } ], on_full: drop_oldest, outputs: [v] }
outputs: { out: ask.v, then: then.v }
)");
  const Plan& plan = harness.plan();
  CHECK(plan.find("ask")->activations_max == 3);
  CHECK(plan_text(plan).find("runs on each of 3 replicas") != std::string::npos);
  CHECK(plan_json(plan).find(R"("balance":"broadcast","replicas":3)") != std::string::npos);
  CHECK(plan_mermaid(plan).find("judge.ask, each of 3 replicas") != std::string::npos);
  const std::string words = explain_node(plan, *plan.find("then"));
  CHECK(words.find("on each of 3 replicas with the same inputs") != std::string::npos);
  CHECK(words.find("may wait while a replica runs") != std::string::npos);
}
