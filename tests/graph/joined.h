// A small graph with a join, and its plan, for tests that drive engines by hand.
#pragma once

#include <catch2/catch.hpp>

#include "harness.h"

namespace sluice::testing {

inline constexpr const char* joined = R"(
sluice: 1
workflow: joined
inputs: { x: text }
roles: { any: { plugin: scripted } }
nodes:
  left:  { run: any.go, inputs: [ { x: inputs.x } ], outputs: [y] }
  right: { run: any.go, inputs: [ { x: inputs.x } ], outputs: [y] }
  both:  { run: any.go, inputs: [ { l: left.y, r: right.y } ], outputs: [z] }
outputs: { out: both.z }
calls: overlap
limits: { deadline: 10s }
)";

inline Plan plan_of(const char* yaml) {
  LoadedWorkflow loaded = load_workflow("test.yaml", yaml);
  check(loaded.spec, scripted(), loaded.diagnostics);
  Plan plan = compile(loaded.spec, scripted(), loaded.diagnostics);
  REQUIRE(!has_errors(loaded.diagnostics));
  return plan;
}

}  // namespace sluice::testing
