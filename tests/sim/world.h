// A workflow and a scenario for tests of the simulator, bound to each other.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "graph/check.h"
#include "graph/script.h"
#include "workflows/load.h"
#include "workflows/load_scenario.h"

namespace sluice::testing {

inline constexpr const char* diamond = R"(
sluice: 1
workflow: diamond
inputs: { x: text }
roles: { a: { plugin: scripted, replicas: 2 }, talk: { plugin: scripted, balance: session } }
nodes:
  split: { run: a.go, inputs: [ { x: inputs.x } ] }
  left:  { run: a.go, inputs: [ { x: split.one } ] }
  right: { run: talk.go, inputs: [ { x: split.two } ] }
  both:  { run: talk.go, inputs: [ { l: left.y, r: right.y } ] }
outputs: { out: both.z }
)";

inline constexpr const char* three_calls = R"(
scenario: three calls
workflow: diamond.yaml
calls:
  - { session: a, inputs: { x: v } }
  - { session: b, inputs: { x: v } }
  - { session: a, inputs: { x: v } }
nodes:
  split: { yields: [ [one, two], [one], [one, two] ] }
  left: { yields: [ [y], [y] ] }
)";

struct Bound {
  Plan plan;
  Script script;
};

inline Plan planned(const std::string& workflow) {
  PluginDeclaration scripted;
  scripted.name = "scripted";
  scripted.any_ports = true;
  const Declarations declarations{scripted};
  LoadedWorkflow loaded = load_workflow("diamond.yaml", workflow);
  check(loaded.spec, declarations, loaded.diagnostics);
  Plan plan = compile(loaded.spec, declarations, loaded.diagnostics);
  REQUIRE(!has_errors(loaded.diagnostics));
  return plan;
}

inline Bound bind(const std::string& scenario) {
  Bound bound;
  bound.plan = planned(diamond);
  LoadedScenario loaded_scenario = load_scenario("s.yaml", scenario);
  bound.script = bind_scenario(loaded_scenario.spec, bound.plan, loaded_scenario.diagnostics);
  REQUIRE(!has_errors(loaded_scenario.diagnostics));
  return bound;
}

}  // namespace sluice::testing
