#include "graph/missing.h"

#include <bit>
#include <map>
#include <set>
#include <utility>

namespace sluice {

namespace {

constexpr std::size_t outputs_named = 4;

/// "side.f", or "side.f or other.g": which sources bring a field, or an output.
std::string sources(const Plan& plan, const std::vector<EdgeId>& edges, std::uint16_t field) {
  std::string text;
  for (const EdgeId id : edges) {
    const Edge& edge = plan.edges[id];
    for (const FieldMap& map : edge.fields)
      if (map.to == field)
        text += (text.empty() ? "" : " or ") + plan.nodes[edge.from].name + "." +
                plan.nodes[edge.from].outputs[map.from];
  }
  return text;
}

std::string join_text(const Plan& plan, const PlanNode& node, std::uint16_t index,
                      std::uint64_t fields) {
  const PlanGroup& group = node.groups[index];
  std::string text = node.name + ": ";
  if (node.groups.size() > 1) text += "group " + std::to_string(index) + ": ";
  const NodeId root = plan.collectors[group.collector].root;
  if (root != entry_node && std::cmp_equal(std::popcount(fields), group.fields.size())) {
    // Each of them came for some yield, or did not for any: none had all.
    for (const std::string& field : group.fields)
      text += (&field == &group.fields.front()  ? ""
               : &field == &group.fields.back() ? " and "
                                                : ", ") +
              field;
    return text + " never came for one and the same yield of " + plan.nodes[root].name +
           ", it did not run";
  }
  for (std::uint16_t field = 0; field < group.fields.size(); ++field)
    if ((fields >> field & 1U) != 0)
      text +=
          group.fields[field] + " did not come from " + sources(plan, group.edges, field) + ", ";
  return text + "it did not run";
}

}  // namespace

void add_missing(const Plan& plan, const std::vector<Lost>& lost, bool no_output,
                 Warnings& warnings) {
  std::set<NodeId> ran;
  std::map<std::pair<NodeId, std::uint16_t>, std::uint64_t> missing;
  for (const Lost& one : lost)
    if (one.fields == 0)
      ran.insert(one.node);
    else
      missing[{one.node, one.group}] |= one.fields;
  for (const auto& [join, fields] : missing)
    if (!ran.contains(join.first))
      warnings.add(join_text(plan, plan.nodes[join.first], join.second, fields));
  if (!no_output) return;
  std::string text = "the call brought no output: ";
  for (std::size_t i = 0; i < plan.outputs.size() && i < outputs_named; ++i)
    text += (i == 0 ? "" : ", ") + plan.outputs[i].name + " did not come from " +
            sources(plan, plan.outputs[i].edges, 0);
  if (plan.outputs.size() > outputs_named)
    text += ", and " + std::to_string(plan.outputs.size() - outputs_named) + " more";
  warnings.add(std::move(text));
}

}  // namespace sluice
