// One scenario under many seeds: loaded, checked against its plan, simulated and judged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/compiled.h"
#include "cli/scenario_chance.h"
#include "graph/script.h"
#include "runtime/sim/simulation.h"
#include "workflows/load_scenario.h"

namespace sluice::cli {

struct Seeds {
  std::uint64_t first = 1;
  std::uint64_t count = 20;
};

struct ScenarioRun {
  std::string file;
  std::string name;
  LoadedScenario loaded;  // of the file, if it can be read
  std::uint64_t seeds = 0;
  Plan plan;
  Script script;
  ByChance chance;
  sim::Report report;                 // of the first seed
  std::vector<std::string> failures;  // in words; empty: passed
  std::string diagnostics;            // of the scenario's or the workflow's file, as text
  std::uint64_t events = 0;           // of all seeds
  std::string stopped;                // why fewer seeds were run than asked for
  bool ran = false;                   // false: the scenario or its workflow is wrong
  std::string lacks;                  // what --set names and the workflow has not, if that is all
};

ScenarioRun run_scenario(const std::string& path, const WorkflowOptions& options,
                         const Catalog& catalog, const Seeds& seeds);

/// One object on one line, as docs/WORKFLOW.md describes it.
/// `skipped`: it was not run, for the workflow lacks what --set names.
std::string scenario_json(const ScenarioRun& run, bool skipped);

}  // namespace sluice::cli
