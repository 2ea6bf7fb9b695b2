// Which shares travel on which edge, and how each node divides what it holds.
//
// For every collector T the shares flow from T's root to T. A join on the way does not let them
// through its region: they wait in the join's scope (a branch "through the join") and go on with
// its firing. So a share is divided only where frames really part, and never has to be put
// together.
#include <algorithm>
#include <string_view>
#include <tuple>

#include "graph/compile.h"

namespace sluice::compiling {

namespace {

bool is_bucket(const Collector& collector) {
  return collector.kind == CollectorKind::join || collector.kind == CollectorKind::count;
}

class Router {
 public:
  Router(const Dominators& dominators, Plan& plan)
      : dominators_(dominators),
        plan_(plan),
        bucket_predecessors_(plan.nodes.size()),
        edges_in_order_(plan.nodes.size()),
        buckets_of_root_(plan.nodes.size()),
        held_(plan.nodes.size()),
        begin_at_(plan.nodes.size()) {
    for (const PlanNode& node : plan_.nodes) {
      edges_in_order_[node.id] = node.edges;
      std::ranges::sort(edges_in_order_[node.id], {}, [&](EdgeId id) {
        const Edge& edge = plan_.edges[id];
        return std::tuple(!edge.is_output(), edge.group,
                          std::string_view(plan_.nodes[edge.to].name));
      });
    }
    for (const Edge& edge : plan_.edges)
      if (live(edge) && edge.direct) bucket_predecessors_[edge.to].push_back(edge.from);
    for (const Collector& c : plan_.collectors)
      if (is_bucket(c)) {
        bucket_predecessors_[c.owner].push_back(c.root);
        buckets_of_root_[c.root].push_back(c.id);
      }
    for (std::vector<CollectorId>& buckets : buckets_of_root_)
      std::ranges::sort(buckets, {}, [&](CollectorId id) { return plan_.collectors[id].rank; });
  }

  /// False, with an error, where there is no room for what the nodes would hold.
  bool run(Diagnostics& diagnostics) {
    for (const Collector& collector : plan_.collectors) {
      find_upstream(collector);
      if (held_in_all_ > flows_max) return report_too_many(diagnostics);
    }
    if (too_many(diagnostics)) return false;
    for (PlanNode& node : plan_.nodes) list_held(node);
    for (Edge& edge : plan_.edges) list_shares(edge);
    for (Collector& collector : plan_.collectors)
      if (is_bucket(collector)) collector.outer = held_of_trigger(collector.owner);
    for (PlanNode& node : plan_.nodes) add_flows(node);
    for (PlanNode& node : plan_.nodes)
      if (!node.groups.empty() && !node.groups[0].counts.empty()) mark_paths(node.groups[0]);
    return true;
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

  /// The nodes that hold shares of `t`: those from which it can be reached below its root.
  void find_upstream(const Collector& t) {
    std::vector<NodeId> targets;
    const auto add = [&](const std::vector<EdgeId>& edges) {
      for (const EdgeId id : edges)
        if (const NodeId from = plan_.edges[id].from; dominators_.reachable(from))
          targets.push_back(from);
    };
    if (t.kind == CollectorKind::output) {
      add(plan_.outputs[t.group].edges);
    } else if (t.kind == CollectorKind::order) {
      for (const PlanGroup& group : plan_.nodes[t.owner].groups)
        if (group.collector == none)
          add(group.edges);
        else
          targets.push_back(plan_.collectors[group.collector].root);
    } else {
      add(plan_.nodes[t.owner].groups[t.group].edges);
    }
    upstream_.push_back(upstream_of(bucket_predecessors_, targets, t.root));
    for (const PlanNode& node : plan_.nodes) {
      if (node.id == t.root || !upstream_.back()[node.id]) continue;
      held_[node.id].push_back(t.id);
      ++held_in_all_;
    }
    ++begin_at_[t.root];
  }

  bool too_many(Diagnostics& diagnostics) const {
    bool any = false;
    for (const PlanNode& node : plan_.nodes) {
      const std::size_t flows = held_[node.id].size() + begin_at_[node.id];
      if (flows <= shares_max) continue;
      any = true;
      diagnostics.push_back(
          {Severity::error, mark_of(node), "too-many-streams",
           "node '" + node.name + "' feeds " + std::to_string(flows) +
               " joins, session queues and outputs that must be told apart; the limit is " +
               std::to_string(shares_max),
           "bring outputs together in one node, or put a session role between"});
    }
    return any;
  }

  bool report_too_many(Diagnostics& diagnostics) const {
    const auto most = std::ranges::max_element(
        plan_.nodes, {}, [&](const PlanNode& node) { return held_[node.id].size(); });
    diagnostics.push_back({Severity::error, mark_of(*most), "too-many-streams",
                           "the nodes of the workflow would keep apart more than " +
                               std::to_string(flows_max) + " streams in all, the limit; node '" +
                               most->name + "' most of them",
                           "bring outputs together in one node, or put a session role between"});
    return false;
  }
  static Mark mark_of(const PlanNode& node) {
    return node.id == entry_node ? Mark{1, 1, 1} : node.mark;
  }

  void list_held(PlanNode& node) {
    if (node.order == none) return;
    const auto& held = held_[node.id];
    const auto it = std::ranges::lower_bound(held, node.order);
    const bool loops = it != held.end() && *it == node.order;
    node.order_position = static_cast<std::uint16_t>((loops ? it : held.end()) - held.begin());
    plan_.collectors[node.order].loops = loops;
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

  /// The ways of one yield, in their logical order: the frame itself to the caller, then what it
  /// sets off at once (by group, then by name), then what its joins set off (by rank: a join stands
  /// behind those it waits for, so no queue holds one up for what must come after it). Every
  /// collector has the same order of ways, and the order of declaration has no part in it.
  std::vector<Branch> branches_of(const PlanNode& node, const Collector& t) const {
    std::vector<Branch> branches;
    for (const EdgeId id : edges_in_order_[node.id]) {
      const Edge& edge = plan_.edges[id];
      const bool through =
          edge.direct && !edge.is_output() && edge.to != t.root && upstream_[t.id][edge.to];
      if (!is_sink(t, edge) && !through) continue;
      branches.push_back({false, id, position(edge.shares, t.id)});
    }
    for (const CollectorId id : buckets_of_root_[node.id]) {
      const Collector& j = plan_.collectors[id];
      if (j.id == t.id) continue;
      const bool sink = t.kind == CollectorKind::order && t.owner == j.owner;
      const bool through = j.owner != t.root && upstream_[t.id][j.owner];
      if (sink || through) branches.push_back({true, j.id, position(j.outer, t.id)});
    }
    return branches;
  }

  /// The list is sorted, but for an order's share, which may stand last.
  static std::uint16_t position(const std::vector<CollectorId>& list, CollectorId id) {
    SLUICE_CHECK(!list.empty(), "a share would have nowhere to go");
    const auto last = list.end() - 1;
    const auto it = *last == id ? last : std::lower_bound(list.begin(), last, id);
    SLUICE_CHECK(*it == id, "a share would have nowhere to go");
    return static_cast<std::uint16_t>(it - list.begin());
  }

  void add_flows(PlanNode& node) {
    if (!dominators_.reachable(node.id)) return;
    for (const CollectorId id : held_[node.id])
      node.flows.push_back({id, Flow::Kind::held, branches_of(node, plan_.collectors[id])});
    node.held = static_cast<std::uint16_t>(node.flows.size());
    for (const Collector& t : plan_.collectors)
      if (t.root == node.id && t.kind != CollectorKind::join)
        node.flows.push_back({t.id, Flow::Kind::opened_per_activation, branches_of(node, t)});
    // A join that feeds another of the same root opens first.
    for (const CollectorId id : buckets_of_root_[node.id])
      if (const Collector& t = plan_.collectors[id]; t.kind == CollectorKind::join)
        node.flows.push_back({id, Flow::Kind::opened_per_yield, branches_of(node, t)});
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
  std::vector<std::vector<NodeId>> bucket_predecessors_;   // with joins contracted to their roots
  std::vector<std::vector<bool>> upstream_;                // per collector
  std::vector<std::vector<EdgeId>> edges_in_order_;        // per node, in the logical order
  std::vector<std::vector<CollectorId>> buckets_of_root_;  // likewise, by rank
  std::vector<std::vector<CollectorId>> held_;             // per node, ascending
  std::vector<std::size_t> begin_at_;  // per node: how many collectors have their root there
  std::size_t held_in_all_ = 0;
};

}  // namespace

void route_shares(const Dominators& dominators, Plan& plan, Diagnostics& diagnostics) {
  (void)Router(dominators, plan).run(diagnostics);
}

}  // namespace sluice::compiling
