// A scenario as its author wrote it: a workflow's own test, in which every role is a script.
//
// Made by `workflows/load_scenario` from YAML; bound to a plan by `bind_scenario`. The format and
// what it means are in docs/WORKFLOW.md, "Scenarios".
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/diagnostic.h"
#include "graph/spec.h"

namespace sluice {

/// Per yield, the fields of its frame.
using YieldsSpec = std::vector<std::vector<Name>>;

/// What a node does instead of running its role.
struct NodeScriptSpec {
  Name node;
  std::vector<YieldsSpec> by_iteration;  // the last repeats; empty: as its role declares
  std::vector<Mark> yields_marks;        // where each of them stands
  std::optional<Name> by_replica;        // they are: not turns, but replicas
  std::vector<std::pair<Name, std::int64_t>> values;
  std::chrono::milliseconds latency_least{1};
  std::chrono::milliseconds latency_most{5};
  bool fail = false;
  std::optional<std::int64_t> fail_when_iteration;
  Mark fail_when_iteration_mark;
  std::optional<std::int64_t> fail_on_replica;
  Mark fail_on_replica_mark;
};

struct ScenarioCallSpec {
  Name session;
  std::vector<std::pair<Name, Name>> inputs;  // input, a word that stands for its value
};

struct ExpectedCall {
  std::optional<Name> status;  // "ok" or "error"
  std::optional<Name> cause;   // the node
  std::vector<std::pair<Name, std::int64_t>> outputs;
  bool no_outputs = false;  // `outputs: none`: of none a frame
};

struct ScenarioSpec {
  std::string file;
  std::string name;
  Name workflow;  // a path, relative to the scenario's file
  std::vector<ScenarioCallSpec> calls;
  std::vector<NodeScriptSpec> nodes;
  Mark expected_mark;  // of expect.calls
  std::vector<ExpectedCall> expected_calls;
  std::vector<std::pair<Name, std::int64_t>> expected_firings;
};

}  // namespace sluice
