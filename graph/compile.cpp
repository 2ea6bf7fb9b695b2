#include "graph/compile.h"

#include <algorithm>
#include <deque>

namespace sluice {

Plan compile(const WorkflowSpec& spec, const Declarations& declarations, Diagnostics& diagnostics) {
  Plan plan;
  if (!compiling::resolve(spec, declarations, plan, diagnostics) ||
      !compiling::edges_fit(plan, diagnostics))
    return plan;
  const Dominators dominators = compiling::dominators_of(plan);
  compiling::place_collectors(dominators, plan);
  compiling::Doubts doubts = compiling::doubts_of(spec, plan);
  // Why a node never runs has been said; that its joins wait says the same.
  for (const Diagnostic& d : diagnostics)
    for (const PlanNode& node : plan.nodes)
      if (d.code == "unreachable-node" && d.mark.line == node.mark.line &&
          d.mark.column == node.mark.column)
        doubts.nodes[node.id] = true;
  compiling::check_loops(plan, dominators, doubts, diagnostics);
  compiling::check_waits(plan, doubts, diagnostics);
  if (has_errors(diagnostics)) return plan;
  compiling::rank_joins(plan);
  compiling::route_shares(dominators, plan, diagnostics);
  if (has_errors(diagnostics)) return plan;
  compiling::bound_frames(plan);
  compiling::warn_of_growing_loops(plan, diagnostics);
  compiling::warn_of_endless_loops(plan, diagnostics);
  compiling::warn_of_empty_queues(plan, diagnostics);
  compiling::warn_of_counts_too_large(plan, diagnostics);
  compiling::warn_of_joins_apart(spec, declarations, plan, diagnostics);
  return plan;
}

namespace compiling {

Dominators dominators_of(const Plan& plan) {
  std::vector<std::vector<NodeId>> successors(plan.nodes.size());
  for (const Edge& edge : plan.edges) {
    if (edge.is_output()) continue;
    const bool counted = !plan.nodes[edge.to].groups[edge.group].counts.empty();
    if (!counted) successors[edge.from].push_back(edge.to);
  }
  for (const PlanNode& node : plan.nodes)
    for (const PlanGroup& group : node.groups)
      if (!group.counts.empty()) successors[entry_node].push_back(node.id);
  return Dominators(successors);
}

std::vector<std::vector<NodeId>> predecessors_of(const Plan& plan) {
  std::vector<std::vector<NodeId>> predecessors(plan.nodes.size());
  for (const Edge& edge : plan.edges)
    if (!edge.is_output()) predecessors[edge.to].push_back(edge.from);
  return predecessors;
}

std::vector<bool> upstream_of(const std::vector<std::vector<NodeId>>& predecessors,
                              const std::vector<NodeId>& targets, NodeId root) {
  std::vector<bool> found(predecessors.size());
  std::vector<NodeId> open;
  const auto visit = [&](NodeId node) {
    if (found[node]) return;
    found[node] = true;
    if (node != root) open.push_back(node);
  };
  for (const NodeId target : targets) visit(target);
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    for (const NodeId before : predecessors[node]) visit(before);
  }
  return found;
}

std::string path_text(const Plan& plan, NodeId from, NodeId to, NodeId avoid) {
  std::vector<NodeId> parent(plan.nodes.size(), none);
  std::deque<NodeId> open{from};
  std::vector<bool> seen(plan.nodes.size());
  bool arrived = false;
  while (!open.empty() && !arrived) {
    const NodeId node = open.front();
    open.pop_front();
    for (const EdgeId id : plan.nodes[node].edges) {
      const Edge& edge = plan.edges[id];
      if (edge.is_output() || seen[edge.to] || (edge.to == avoid && edge.to != to)) continue;
      seen[edge.to] = true;
      parent[edge.to] = node;
      if (edge.to == to) {
        arrived = true;
        break;
      }
      open.push_back(edge.to);
    }
  }
  if (!arrived) return plan.nodes[from].name + " -> " + plan.nodes[to].name;
  std::vector<NodeId> path{to};
  do {
    path.push_back(parent[path.back()]);
  } while (path.back() != from);
  std::ranges::reverse(path);
  std::string text;
  for (const NodeId node : path) text += (text.empty() ? "" : " -> ") + plan.nodes[node].name;
  return text;
}

}  // namespace compiling

}  // namespace sluice
