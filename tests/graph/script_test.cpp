// A scenario bound to a plan: sessions by name, and each node's yields in order.
#include "graph/script.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "graph/check.h"
#include "tests/sim/world.h"
#include "workflows/load.h"
#include "workflows/load_scenario.h"

using namespace sluice;

TEST_CASE("calls of one session's name share its place, in the order in which names come") {
  const testing::Bound bound = testing::bind(testing::three_calls);
  CHECK(bound.script.sessions == std::vector<std::string>{"a", "b"});
  REQUIRE(bound.script.calls.size() == 3);
  CHECK(bound.script.calls[0].session == 0);
  CHECK(bound.script.calls[1].session == 1);
  CHECK(bound.script.calls[2].session == 0);
  for (const ScriptCall& call : bound.script.calls) {
    CHECK(call.inputs == 1);
    CHECK(call.number(0) == 0);
    CHECK(call.number(7) == 0);
  }
}

TEST_CASE("a node yields the fields that its script names, and fails where it says so") {
  const testing::Bound bound = testing::bind(testing::three_calls);
  const auto outputs = [&](const char* node, std::initializer_list<const char*> names) {
    std::uint64_t mask = 0;
    const PlanNode* found = bound.plan.find(node);
    for (const char* name : names)
      for (std::size_t i = 0; i < found->outputs.size(); ++i)
        if (found->outputs[i] == name) mask |= std::uint64_t{1} << i;
    return mask;
  };
  const NodeScript& split = bound.script.nodes[bound.plan.find("split")->id];
  const std::vector<std::uint64_t> yields{outputs("split", {"one", "two"}),
                                          outputs("split", {"one"}),
                                          outputs("split", {"one", "two"})};
  CHECK(split.yields(0, 0) == yields);
  CHECK(split.yields(9, 0) == yields);
  CHECK_FALSE(split.fails(0, 0));
  const NodeScript& left = bound.script.nodes[bound.plan.find("left")->id];
  CHECK(left.yields(0, 0) == std::vector<std::uint64_t>(2, outputs("left", {"y"})));
  NodeScript fails;
  fails.by_iteration = {{1}, {2}};
  fails.fail_when_iteration = 1;
  CHECK_FALSE(fails.fails(0, 0));
  CHECK(fails.fails(1, 0));
  CHECK_FALSE(fails.fails(2, 0));
  CHECK(fails.yields(1, 0) == std::vector<std::uint64_t>{2});
  CHECK(fails.yields(5, 0) == std::vector<std::uint64_t>{2});
}

namespace {

/// A node `say`, whose role yields at most `most` frames, each of them either `text`, or `image`
/// with the number `n`, which comes once in a call.
Plan plan_of_teller(std::uint32_t most) {
  PluginDeclaration teller;
  teller.name = "teller";
  InterfaceDeclaration tell;
  tell.name = "tell";
  tell.inputs = {{"x", ValueType::any, ""}};
  tell.outputs = {{"text", ValueType::text, ""},
                  {"image", ValueType::image, ""},
                  {"n", ValueType::number, "", true}};
  tell.frames = {{"text"}, {"image", "n"}};
  tell.yields_max = most;
  teller.interfaces = {tell};
  LoadedWorkflow loaded = load_workflow("w.yaml", R"(
sluice: 1
workflow: told
inputs: { x: text }
roles: { teller: { plugin: teller, replicas: 2, balance: broadcast } }
nodes:
  say: { run: teller.tell, inputs: [ { x: inputs.x } ] }
outputs: { text: say.text, image: say.image, n: say.n }
)");
  const Declarations declarations{teller};
  check(loaded.spec, declarations, loaded.diagnostics);
  Plan plan = compile(loaded.spec, declarations, loaded.diagnostics);
  REQUIRE(!has_errors(loaded.diagnostics));
  return plan;
}

/// What is wrong with the script of a node that yields at most three frames: line and words.
std::string problems(const std::string& script) {
  const Plan plan = plan_of_teller(3);
  LoadedScenario scenario =
      load_scenario("s.yaml", "scenario: s\nworkflow: w.yaml\ncalls: [ {} ]\nnodes:\n  say: { " +
                                  script + " }\nexpect: { firings: { say: 2 } }\n");
  (void)bind_scenario(scenario.spec, plan, scenario.diagnostics);
  std::string text;
  for (const Diagnostic& d : scenario.diagnostics)
    text += std::to_string(d.mark.line) + ": " + d.message + " [" + d.suggestion + "]\n";
  return text;
}

}  // namespace

TEST_CASE("without a script what a role yields apart comes in frames of its own") {
  Diagnostics diagnostics;
  const auto yields = [&](std::uint32_t most) {
    const Plan plan = plan_of_teller(most);
    return bind_scenario({}, plan, diagnostics).nodes[plan.find("say")->id].by_iteration;
  };
  CHECK(yields(3) == std::vector<std::vector<std::uint64_t>>{{0b001, 0b110}});
  CHECK(yields(0) == yields(3));
  CHECK(yields(1) == std::vector<std::vector<std::uint64_t>>{{0b001}});
  CHECK(diagnostics.empty());
}

TEST_CASE("a script yields nothing that its role declares impossible") {
  CHECK(problems("yields: [ [text], [image, n], [text] ]").empty());
  CHECK(problems("yields: [ [image] ], values: { n: 2 }").empty());
  CHECK(problems("yields: [ [], [text] ], values: { n: 2 }").empty());
  CHECK(
      problems("yields: [ [text], [text, image] ]") ==
      "5: 'say' yields text, image in one frame, and 'teller.tell' never does [each of its frames "
      "is within one of these: [ text ], [ image, n ]]\n");
  CHECK(problems("by_replica: [ [ [text] ],\n    [ [image],\n      [text, n] ] ]") ==
        "7: 'say' yields text, n in one frame, and 'teller.tell' never does [each of its frames is "
        "within one of these: [ text ], [ image, n ]]\n");
  CHECK(problems("by_replica: [ [ [text] ],\n    [ [text], [text], [text], [text] ] ]") ==
        "6: 'say' yields 4 frames at once, and 'teller.tell' yields at most 3 [leave out what no "
        "activation of it can yield]\n");
  CHECK(problems("yields: [ [image, n],\n    [text], [n] ]") ==
        "6: 'say' yields n a second time, and 'teller.tell' yields it once in a call [leave it out "
        "of all frames but one]\n");
}

TEST_CASE("a script speaks of a turn that a node in no loop does not have") {
  const std::string where = ": 'say' stands in no loop: its only turn is 0, and ";
  CHECK(problems("by_iteration: [ [ [text] ],\n    [ [image, n] ] ]") ==
        "6" + where +
            "`by_iteration` says what it yields at others [write what it yields as `yields`]\n");
  CHECK(problems("fail_when_iteration: 1") ==
        "5" + where + "it is told to fail at 1 [`fail: true` fails it whenever it runs]\n");
  CHECK(problems("by_iteration: [ [ [text] ] ]").empty());
  CHECK(problems("fail_when_iteration: 0").empty());
}
