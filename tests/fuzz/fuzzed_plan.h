// The plan that the fuzz targets of messages read by, and where its nodes are.
#pragma once

#include <cstdint>

#include "graph/check.h"
#include "graph/plan.h"
#include "runtime/wire/contract.h"
#include "tests/wire/everything.h"
#include "workflows/load.h"

namespace sluice::testing {

inline constexpr std::uint32_t machines = 3;

inline Plan fuzzed_plan() {
  PluginDeclaration scripted;
  scripted.name = "scripted";
  scripted.any_ports = true;
  LoadedWorkflow loaded = load_workflow("fuzzed.yaml", everything);
  check(loaded.spec, {scripted}, loaded.diagnostics);
  Plan plan = compile(loaded.spec, {scripted}, loaded.diagnostics);
  if (has_errors(loaded.diagnostics)) __builtin_trap();
  return plan;
}

inline wire::Placement placement_of(const Plan& plan) {
  wire::Placement placement;
  for (const PlanNode& node : plan.nodes) placement.nodes.of.push_back(node.id % machines);
  placement.homes = {true, false, true};
  return placement;
}

}  // namespace sluice::testing
