// Scripts that nobody wrote: each loop goes round twice, and calls end well.
#include "graph/loop_ends.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "graph/check.h"
#include "runtime/sim/simulation.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

/// Roles `r` take and give anything; `talker.say` yields `plan` and `answer` apart.
Plan plan_of(const std::string& nodes) {
  PluginDeclaration scripted, talks;
  scripted.name = "scripted";
  scripted.any_ports = true;
  talks.name = "talks";
  InterfaceDeclaration say;
  say.name = "say";
  say.inputs = {{"x", ValueType::any, ""}};
  say.outputs = {{"plan", ValueType::any, ""}, {"answer", ValueType::any, ""}};
  say.frames = {{"plan"}, {"answer"}};
  talks.interfaces = {say};
  const Declarations declarations{scripted, talks};
  LoadedWorkflow loaded = load_workflow("loops.yaml",
                                        "sluice: 1\nworkflow: loops\ninputs: { a: text }\n"
                                        "roles: { r: { plugin: scripted }, talker: { plugin: "
                                        "talks } }\nnodes:\n" +
                                            nodes);
  check(loaded.spec, declarations, loaded.diagnostics);
  Plan plan = compile(loaded.spec, declarations, loaded.diagnostics);
  REQUIRE(!has_errors(loaded.diagnostics));
  return plan;
}

/// Nobody described its nodes.
Script script_of(const Plan& plan) {
  Diagnostics diagnostics;
  Script script = bind_scenario({}, plan, diagnostics);
  end_loops(script, plan);
  return script;
}

/// Of one call whose nodes nobody described: how often each fired, e.g. "a2 b1".
std::string firings(const Plan& plan) {
  Script script = script_of(plan);
  script.sessions = {"s"};
  script.calls = {{0, 1, {}}};
  const sim::Report report = sim::simulate(plan, script, {});
  CHECK(report.violations.empty());
  const sim::CallReport& call = report.calls.at(0);
  CHECK(call.failure == nullptr);
  CHECK(call.outputs.at(0) > 0);
  std::string text;
  for (const PlanNode& node : plan.nodes)
    if (node.id != entry_node)
      text += (text.empty() ? "" : " ") + node.name +
              std::to_string(std::ranges::count(report.firings, node.id, &sim::Firing::node));
  return text;
}

}  // namespace

TEST_CASE("the node that can leave a loop does so the second time") {
  CHECK(firings(plan_of(R"(
  think: { run: r.a, inputs: [ { x: inputs.a }, { x: act.done } ], outputs: [plan, answer] }
  act: { run: r.b, inputs: [ { x: think.plan } ], outputs: [done] }
outputs: { o: think.answer }
)")) == "think2 act1");
}

TEST_CASE("of what comes apart the second time leaves out what leads back") {
  const Plan plan = plan_of(R"(
  think: { run: talker.say, inputs: [ { x: inputs.a }, { x: act.done } ] }
  act: { run: r.b, inputs: [ { x: think.plan } ], outputs: [done] }
outputs: { o: think.answer }
)");
  CHECK(firings(plan) == "think2 act1");
  const Script script = script_of(plan);
  CHECK(script.nodes[plan.find("think")->id].by_iteration ==
        std::vector<std::vector<std::uint64_t>>{{0b01, 0b10}, {0b10}});
}

TEST_CASE("a loop that leaves by what it repeats ends too") {
  CHECK(firings(plan_of(R"(
  one: { run: r.a, inputs: [ { x: inputs.a }, { x: two.y } ], outputs: [y] }
  two: { run: r.b, inputs: [ { x: one.y } ], outputs: [y] }
outputs: { o: two.y }
)")) == "one2 two2");
  CHECK(firings(plan_of(R"(
  one: { run: r.a, inputs: [ { x: inputs.a }, { x: one.y } ], outputs: [y] }
outputs: { o: one.y }
)")) == "one2");
}

TEST_CASE("a loop within a loop ends, and so do two that share a node") {
  // `pick` goes round the inner loop again or leaves it, which leads back by the outer loop.
  CHECK(firings(plan_of(R"(
  begin: { run: r.a, inputs: [ { x: inputs.a }, { x: judge.again } ], outputs: [y] }
  pick: { run: r.b, inputs: [ { x: begin.y }, { x: pick.more } ], outputs: [more, chosen] }
  judge: { run: r.c, inputs: [ { x: pick.chosen } ], outputs: [again, answer] }
outputs: { o: judge.answer }
)")) == "begin3 pick4 judge4");
  CHECK(firings(plan_of(R"(
  hub:
    run: r.a
    inputs: [ { x: inputs.a }, { x: left.y }, { x: right.y } ]
    outputs: [l, r, out]
  left: { run: r.b, inputs: [ { x: hub.l } ], outputs: [y] }
  right: { run: r.c, inputs: [ { x: hub.r } ], outputs: [y] }
outputs: { o: hub.out }
)")) == "hub3 left1 right1");
}

TEST_CASE("without a loop nothing is left out") {
  const Plan plan = plan_of(R"(
  one: { run: r.a, inputs: [ { x: inputs.a } ], outputs: [y, z] }
  two: { run: r.b, inputs: [ { p: one.y, q: one.z } ], outputs: [y] }
outputs: { o: two.y }
)");
  CHECK(firings(plan) == "one1 two1");
  const Script script = script_of(plan);
  for (const NodeScript& node : script.nodes) CHECK(node.by_iteration.size() == 1);
}
