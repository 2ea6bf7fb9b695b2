// A scenario bound to a plan: names looked up, every node given its script.
//
// Thread: immutable after `bind_scenario`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/plan.h"
#include "graph/scenario.h"

namespace sluice {

struct NodeScript {
  /// Entry i: the fields of each yield (bits by output index) when i activations of the node are
  /// ancestors; the last entry repeats. Never empty.
  std::vector<std::vector<std::uint64_t>> by_iteration;
  bool by_replica = false;           // entry i is that of replica i instead
  std::vector<std::int64_t> values;  // index = output
  std::chrono::nanoseconds latency_least{};
  std::chrono::nanoseconds latency_most{};
  bool fail = false;
  std::optional<std::int64_t> fail_when_iteration;
  std::optional<std::int64_t> fail_on_replica;

  const std::vector<std::uint64_t>& yields(std::uint32_t iteration, std::uint32_t replica) const {
    const std::uint32_t entry = by_replica ? replica : iteration;
    return by_iteration[entry < by_iteration.size() ? entry : by_iteration.size() - 1];
  }
  bool fails(std::uint32_t iteration, std::uint32_t replica) const {
    return fail || fail_when_iteration == iteration || fail_on_replica == replica;
  }
};

struct ScriptCall {
  std::uint64_t session = 0;          // index in `Script::sessions`
  std::uint64_t inputs = 0;           // which are given, bits by the plan's input index
  std::vector<std::int64_t> numbers;  // index = input; of inputs that are no numbers 0

  std::int64_t number(std::size_t input) const {
    return input < numbers.size() ? numbers[input] : 0;
  }
};

struct Script {
  std::vector<std::string> sessions;
  std::vector<ScriptCall> calls;
  std::vector<NodeScript> nodes;  // index = NodeId
};

/// Appends what does not fit the plan (unknown nodes, fields, inputs, outputs).
Script bind_scenario(const ScenarioSpec& spec, const Plan& plan, Diagnostics& diagnostics);

}  // namespace sluice
