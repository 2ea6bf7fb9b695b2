#include "graph/dominators.h"

#include <algorithm>
#include <utility>

namespace sluice {

namespace {

std::vector<Dominators::Node> reverse_postorder(
    const std::vector<std::vector<Dominators::Node>>& successors) {
  std::vector<Dominators::Node> order;
  std::vector<std::pair<Dominators::Node, std::size_t>> stack{{0, 0}};
  std::vector<bool> seen(successors.size());
  seen[0] = true;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == successors[node].size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    const Dominators::Node to = successors[node][next++];
    if (seen[to]) continue;
    seen[to] = true;
    stack.emplace_back(to, 0);
  }
  std::ranges::reverse(order);
  return order;
}

}  // namespace

Dominators::Dominators(const std::vector<std::vector<Node>>& successors)
    : immediate_(successors.size(), unreachable), order_(successors.size()) {
  const std::vector<Node> nodes = reverse_postorder(successors);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) order_[nodes[i]] = i;
  std::vector<std::vector<Node>> predecessors(successors.size());
  for (const Node node : nodes)
    for (const Node to : successors[node]) predecessors[to].push_back(node);
  immediate_[0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Node node : nodes) {
      if (node == 0) continue;
      Node best = unreachable;
      for (const Node before : predecessors[node]) {
        if (immediate_[before] == unreachable) continue;
        best = best == unreachable ? before : nearest_common(best, before);
      }
      if (best == immediate_[node]) continue;
      immediate_[node] = best;
      changed = true;
    }
  }
}

Dominators::Node Dominators::nearest_common(Node a, Node b) const {
  while (a != b) {
    while (order_[a] > order_[b]) a = immediate_[a];
    while (order_[b] > order_[a]) b = immediate_[b];
  }
  return a;
}

}  // namespace sluice
