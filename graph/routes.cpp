// Which shares travel on which edge, and how each node divides what it holds.
//
// For every collector T the shares flow from T's root to T. A join on the way does not let them
// through its region: they wait in the join's scope (a branch "through the join") and go on with
// its firing. So a share is divided only where frames really part, and never has to be put
// together.
#include <algorithm>
#include <map>

#include "graph/compile.h"

namespace sluice::compiling {

namespace {

bool is_bucket(const Collector& collector) {
  return collector.kind == CollectorKind::join || collector.kind == CollectorKind::count;
}

class Router {
 public:
  Router(const Dominators& dominators, Plan& plan)
      : dominators_(dominators), plan_(plan), bucket_predecessors_(plan.nodes.size()) {
    for (const Edge& edge : plan_.edges)
      if (live(edge) && edge.direct) bucket_predecessors_[edge.to].push_back(edge.from);
    for (const Collector& c : plan_.collectors)
      if (is_bucket(c)) bucket_predecessors_[c.owner].push_back(c.root);
  }

  void run() {
    for (const Collector& collector : plan_.collectors) find_upstream(collector);
    for (PlanNode& node : plan_.nodes) list_held(node);
    for (Edge& edge : plan_.edges) list_shares(edge);
    for (Collector& collector : plan_.collectors)
      if (is_bucket(collector)) collector.outer = held_of_trigger(collector.owner);
    for (PlanNode& node : plan_.nodes) add_flows(node);
    for (PlanNode& node : plan_.nodes)
      if (!node.groups.empty() && !node.groups[0].counts.empty()) mark_paths(node.groups[0]);
  }

 private:
  bool live(const Edge& edge) const {
    return dominators_.reachable(edge.from) && !edge.is_output();
  }
  bool is_sink(const Collector& t, const Edge& edge) const {
    switch (t.kind) {
      case CollectorKind::join:
      case CollectorKind::count:
        return edge.to == t.owner && edge.group == t.group && !edge.is_output();
      case CollectorKind::order:
        return edge.to == t.owner && edge.direct && !edge.is_output();
      case CollectorKind::output:
        return edge.is_output() && edge.group == t.group;
    }
    return false;
  }

  void find_upstream(const Collector& t) {
    std::vector<NodeId> targets;
    for (const Edge& edge : plan_.edges)
      if (dominators_.reachable(edge.from) && is_sink(t, edge)) targets.push_back(edge.from);
    if (t.kind == CollectorKind::order)
      for (const Collector& j : plan_.collectors)
        if (is_bucket(j) && j.owner == t.owner) targets.push_back(j.root);
    upstream_.push_back(upstream_of(bucket_predecessors_, targets, t.root));
  }

  bool holds(const PlanNode& node, const Collector& t) const {
    return node.id != t.root && upstream_[t.id][node.id];
  }

  void list_held(PlanNode& node) {
    for (const Collector& t : plan_.collectors)
      if (holds(node, t)) held_[node.id].push_back(t.id);
    if (node.order == none) return;
    const auto& held = held_[node.id];
    const auto it = std::ranges::find(held, node.order);
    node.order_position = static_cast<std::uint16_t>(it - held.begin());
    plan_.collectors[node.order].loops = it != held.end();
  }

  std::vector<CollectorId> held_of_trigger(NodeId owner) {
    std::vector<CollectorId> shares = held_[owner];
    const CollectorId order = plan_.nodes[owner].order;
    if (order != none && !plan_.collectors[order].loops) shares.push_back(order);
    return shares;
  }

  void list_shares(Edge& edge) {
    if (edge.is_output())
      edge.shares = {plan_.outputs[edge.group].collector};
    else if (!edge.direct)
      edge.shares = {plan_.nodes[edge.to].groups[edge.group].collector};
    else
      edge.shares = held_of_trigger(edge.to);
  }

  std::vector<Branch> branches_of(const PlanNode& node, const Collector& t) const {
    std::vector<Branch> branches;
    for (const EdgeId id : node.edges) {
      const Edge& edge = plan_.edges[id];
      const bool through =
          edge.direct && !edge.is_output() && edge.to != t.root && upstream_[t.id][edge.to];
      if (!is_sink(t, edge) && !through) continue;
      branches.push_back({false, id, position(edge.shares, t.id)});
    }
    for (const Collector& j : plan_.collectors) {
      if (!is_bucket(j) || j.root != node.id || j.id == t.id) continue;
      const bool sink = t.kind == CollectorKind::order && t.owner == j.owner;
      const bool through = j.owner != t.root && upstream_[t.id][j.owner];
      if (sink || through) branches.push_back({true, j.id, position(j.outer, t.id)});
    }
    return branches;
  }

  static std::uint16_t position(const std::vector<CollectorId>& list, CollectorId id) {
    const auto it = std::ranges::find(list, id);
    SLUICE_CHECK(it != list.end(), "a share would have nowhere to go");
    return static_cast<std::uint16_t>(it - list.begin());
  }

  void add_flows(PlanNode& node) {
    if (!dominators_.reachable(node.id)) return;
    for (const CollectorId id : held_[node.id])
      node.flows.push_back({id, Flow::Kind::held, branches_of(node, plan_.collectors[id])});
    node.held = static_cast<std::uint16_t>(node.flows.size());
    std::vector<Flow> per_yield;
    for (const Collector& t : plan_.collectors) {
      if (t.root != node.id) continue;
      std::vector<Branch> branches = branches_of(node, t);
      if (t.kind == CollectorKind::join)
        per_yield.push_back({t.id, Flow::Kind::opened_per_yield, std::move(branches)});
      else
        node.flows.push_back({t.id, Flow::Kind::opened_per_activation, std::move(branches)});
    }
    // A join that feeds another of the same root opens first.
    while (!per_yield.empty()) {
      const auto ready = std::ranges::find_if(per_yield, [&](const Flow& flow) {
        return std::ranges::none_of(flow.branches, [&](const Branch& b) {
          return b.through_join && std::ranges::any_of(per_yield, [&](const Flow& other) {
                   return other.collector == b.target;
                 });
        });
      });
      SLUICE_CHECK(ready != per_yield.end(), "joins of one root feed each other in a circle");
      node.flows.push_back(std::move(*ready));
      per_yield.erase(ready);
    }
  }

  /// A count takes the first frames of a field. Where two branches of one yield bring that field,
  /// shares cannot tell which is first (they order whole branches), so the frames carry paths.
  void mark_paths(PlanGroup& group) {
    for (const PlanCount& count : group.counts) {
      if (count.kind == PlanCount::Kind::all) continue;
      std::vector<bool> brings(plan_.nodes.size());
      for (bool grew = true; grew;) {
        grew = false;
        for (const PlanNode& node : plan_.nodes) {
          if (brings[node.id] || parting(node, group, count.field, brings) == 0) continue;
          brings[node.id] = grew = true;
        }
      }
      for (const PlanNode& node : plan_.nodes)
        if (parting(node, group, count.field, brings) > 1) group.by_path = true;
    }
    plan_.paths = plan_.paths || group.by_path;
  }

  /// How many branches of one yield of `node` lead to that field of the group.
  std::size_t parting(const PlanNode& node, const PlanGroup& group, std::uint16_t field,
                      const std::vector<bool>& brings) const {
    std::size_t ways = 0;
    for (const Flow& flow : node.flows) {
      if (flow.collector != group.collector) continue;
      for (const Branch& branch : flow.branches)
        ways += leads(branch, group, field, brings) ? 1 : 0;
    }
    return ways;
  }

  bool leads(const Branch& branch, const PlanGroup& group, std::uint16_t field,
             const std::vector<bool>& brings) const {
    if (branch.through_join) return brings[plan_.collectors[branch.target].owner];
    const Edge& edge = plan_.edges[branch.target];
    if (edge.to != plan_.collectors[group.collector].owner) return brings[edge.to];
    return std::ranges::any_of(edge.fields, [&](const FieldMap& map) { return map.to == field; });
  }

  const Dominators& dominators_;
  Plan& plan_;
  std::vector<std::vector<NodeId>> bucket_predecessors_;  // with joins contracted to their roots
  std::vector<std::vector<bool>> upstream_;               // per collector
  std::map<NodeId, std::vector<CollectorId>> held_;
};

}  // namespace

void route_shares(const Dominators& dominators, Plan& plan, Diagnostics& diagnostics) {
  Router(dominators, plan).run();
  for (const PlanNode& node : plan.nodes) {
    if (node.flows.size() <= shares_max) continue;
    diagnostics.push_back(
        {Severity::error, node.mark, "too-many-streams",
         "node '" + node.name + "' feeds " + std::to_string(node.flows.size()) +
             " joins, session queues and outputs that must be told apart; the limit is " +
             std::to_string(shares_max),
         "bring outputs together in one node, or put a session role between"});
  }
}

}  // namespace sluice::compiling
