// Who collects, and where each collection has its root.
#include <set>

#include "graph/compile.h"

namespace sluice::compiling {

namespace {

/// True when the node's activations in a call are numbered: it runs once, or in order.
bool is_sequenced(const Plan& plan, NodeId node) {
  if (node == entry_node) return true;
  const PlanNode& it = plan.nodes[node];
  if (it.balance == Balance::session) return true;
  return it.groups.size() == 1 && !it.groups[0].counts.empty();
}

NodeId nearest_sequenced(const Plan& plan, const Dominators& dominators, NodeId node) {
  while (!is_sequenced(plan, node)) node = dominators.immediate(node);
  return node;
}

/// The nearest node that dominates every source of `edges`, sources included.
NodeId common_root(const Plan& plan, const Dominators& dominators,
                   const std::vector<EdgeId>& edges) {
  NodeId root = none;
  for (const EdgeId id : edges) {
    const NodeId from = plan.edges[id].from;
    if (!dominators.reachable(from)) continue;
    root = root == none ? from : dominators.nearest_common(root, from);
  }
  return root == none ? entry_node : root;
}

CollectorId add(Plan& plan, CollectorKind kind, NodeId owner, std::uint16_t group, NodeId root) {
  const auto id = static_cast<CollectorId>(plan.collectors.size());
  plan.collectors.push_back({id, kind, owner, group, root, false, 0, {}});
  return id;
}

}  // namespace

void place_collectors(const Dominators& dominators, Plan& plan) {
  for (PlanNode& node : plan.nodes) {
    if (node.id == entry_node || !dominators.reachable(node.id)) continue;
    node.dominator = dominators.immediate(node.id);
    bool counted = false;
    for (std::uint16_t g = 0; g < node.groups.size(); ++g) {
      PlanGroup& group = node.groups[g];
      if (!group.counts.empty()) {
        group.collector = add(plan, CollectorKind::count, node.id, g, entry_node);
        counted = true;
      } else if (group.edges.size() >= 2) {
        group.collector =
            add(plan, CollectorKind::join, node.id, g, common_root(plan, dominators, group.edges));
      }
    }
    if (node.balance == Balance::session && !counted)
      node.order = add(plan, CollectorKind::order, node.id, 0,
                       nearest_sequenced(plan, dominators, node.dominator));
  }
  for (std::uint16_t i = 0; i < plan.outputs.size(); ++i) {
    const NodeId root = common_root(plan, dominators, plan.outputs[i].edges);
    plan.outputs[i].collector =
        add(plan, CollectorKind::output, entry_node, i, nearest_sequenced(plan, dominators, root));
  }
}

}  // namespace sluice::compiling
