// What the tables of a plan have room for: more is an error that names the place.
#include <algorithm>

#include "graph/compile.h"

namespace sluice::compiling {

namespace {

void add_error(Diagnostics& diagnostics, Mark mark, std::string code, std::string message,
               std::string suggestion) {
  diagnostics.push_back(
      {Severity::error, mark, std::move(code), std::move(message), std::move(suggestion)});
}

}  // namespace

bool fields_fit(const WorkflowSpec& spec, const Plan& plan, Diagnostics& diagnostics) {
  bool fit = true;
  const std::string limit = std::to_string(outputs_per_node_max);
  if (plan.inputs.size() > outputs_per_node_max) {
    fit = false;
    add_error(
        diagnostics, spec.inputs[outputs_per_node_max].name.mark, "too-many-inputs",
        "the workflow has " + std::to_string(plan.inputs.size()) + " inputs; the limit is " + limit,
        "bring several values in one input");
  }
  for (const PlanNode& node : plan.nodes) {
    if (node.id == entry_node || node.outputs.size() <= outputs_per_node_max) continue;
    fit = false;
    add_error(diagnostics, node.mark, "too-many-outputs",
              "node '" + node.name + "' has " + std::to_string(node.outputs.size()) +
                  " output fields; the limit is " + limit,
              "bring several values in one field, or let two nodes share the work");
  }
  return fit;
}

bool edges_fit(const Plan& plan, Diagnostics& diagnostics) {
  std::size_t joins = 0;
  for (const PlanNode& node : plan.nodes) {
    const std::size_t before = joins;
    for (const PlanGroup& group : node.groups)
      if (group.edges.size() > 1 || !group.counts.empty()) ++joins;
    if (before > joins_max || joins <= joins_max) continue;
    add_error(diagnostics, node.mark, "too-many-joins",
              "with node '" + node.name + "' the workflow has more than " +
                  std::to_string(joins_max) + " joins and counts, the limit",
              "make two workflows of it");
  }
  if (plan.edges.size() <= edges_max) return joins <= joins_max;
  const auto most = std::ranges::max_element(
      plan.nodes, {}, [](const PlanNode& node) { return node.edges.size(); });
  add_error(diagnostics, most->id == entry_node ? Mark{1, 1, 1} : most->mark, "too-many-edges",
            "the workflow has " + std::to_string(plan.edges.size()) +
                " connections between nodes, most of them (" + std::to_string(most->edges.size()) +
                ") from '" + most->name + "'; the limit is " + std::to_string(edges_max),
            "bring values together in one node, or make two workflows of it");
  return false;
}

}  // namespace sluice::compiling
