#include "graph/loop_ends.h"

#include <algorithm>

namespace sluice {

namespace {

/// The plan's nodes and edges, less what was cut so far.
class Loops {
 public:
  explicit Loops(const Plan& plan)
      : plan_(plan), cut_(plan.nodes.size(), 0), component_(plan.nodes.size()) {}

  /// Fields that come the first time only, index = NodeId.
  const std::vector<std::uint64_t>& cut() const { return cut_; }

  /// Cuts where each remaining loop can be left; false when none remains.
  bool cut_once() {
    find_components();
    std::vector<NodeId> last(plan_.nodes.size(), none);  // in a loop, by its component
    std::vector<bool> left(plan_.nodes.size(), false);   // by component
    const std::vector<std::uint64_t> before = cut_;
    for (const PlanNode& node : plan_.nodes) {
      const std::uint64_t back = leading_back(node, before);
      if (back == 0) continue;
      last[component_[node.id]] = node.id;
      if ((leading_anywhere(node) & ~back & ~before[node.id]) == 0) continue;
      cut_[node.id] |= back;
      left[component_[node.id]] = true;
    }
    bool any = false;
    for (std::size_t component = 0; component < last.size(); ++component) {
      if (last[component] == none) continue;
      any = true;
      if (!left[component])
        cut_[last[component]] |= leading_back(plan_.nodes[last[component]], before);
    }
    return any;
  }

 private:
  bool is_whole(const Edge& edge, const std::vector<std::uint64_t>& cut) const {
    return !edge.is_output() && edge.takes(edge.mask & ~cut[edge.from]);
  }
  /// Its fields on edges that stay in its component.
  std::uint64_t leading_back(const PlanNode& node, const std::vector<std::uint64_t>& cut) const {
    std::uint64_t fields = 0;
    for (const EdgeId id : node.edges) {
      const Edge& edge = plan_.edges[id];
      if (is_whole(edge, cut) && component_[edge.to] == component_[node.id]) fields |= edge.mask;
    }
    return fields & ~cut[node.id];
  }
  std::uint64_t leading_anywhere(const PlanNode& node) const {
    std::uint64_t fields = 0;
    for (const EdgeId id : node.edges) fields |= plan_.edges[id].mask;
    return fields;
  }

  struct Visit {
    NodeId node = 0;
    std::size_t next = 0;  // of its edges
  };

  /// Strongly connected components, after Tarjan, without recursion: a workflow may be deep.
  void find_components() {
    const std::size_t count = plan_.nodes.size();
    constexpr std::size_t unseen = 0;
    std::vector<std::size_t> seen(count, unseen), lowest(count, 0);
    std::vector<bool> open(count, false);
    std::vector<NodeId> stack;
    std::vector<Visit> visits;
    std::size_t moment = 0, components = 0;
    const auto enter = [&](NodeId node) {
      seen[node] = lowest[node] = ++moment;
      stack.push_back(node);
      open[node] = true;
      visits.push_back({node});
    };
    const auto leave = [&](NodeId node) {
      visits.pop_back();
      if (!visits.empty())
        lowest[visits.back().node] = std::min(lowest[visits.back().node], lowest[node]);
      if (lowest[node] != seen[node]) return;
      for (NodeId member = none; member != node;) {
        member = stack.back();
        stack.pop_back();
        open[member] = false;
        component_[member] = components;
      }
      ++components;
    };
    for (const PlanNode& first : plan_.nodes) {
      if (seen[first.id] == unseen) enter(first.id);
      while (!visits.empty()) {
        Visit& visit = visits.back();
        const std::vector<EdgeId>& edges = plan_.nodes[visit.node].edges;
        if (visit.next == edges.size()) {
          leave(visit.node);
          continue;
        }
        const Edge& edge = plan_.edges[edges[visit.next++]];
        if (!is_whole(edge, cut_)) continue;
        if (seen[edge.to] == unseen)
          enter(edge.to);
        else if (open[edge.to])
          lowest[visit.node] = std::min(lowest[visit.node], seen[edge.to]);
      }
    }
  }

  const Plan& plan_;
  std::vector<std::uint64_t> cut_;
  std::vector<std::size_t> component_;
};

}  // namespace

void end_loops(Script& script, const Plan& plan) {
  Loops loops(plan);
  while (loops.cut_once()) {
  }
  for (const PlanNode& node : plan.nodes) {
    const std::uint64_t cut = loops.cut()[node.id];
    if (cut == 0) continue;
    std::vector<std::vector<std::uint64_t>>& yields = script.nodes[node.id].by_iteration;
    std::vector<std::uint64_t> rest;
    for (const std::uint64_t frame : yields.front())
      if ((frame & ~cut) != 0) rest.push_back(frame & ~cut);
    yields.push_back(std::move(rest));
  }
}

}  // namespace sluice
