// Graphs that could wait for ever are refused here, with the path that shows why.
#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "graph/compile.h"

namespace sluice::compiling {

namespace {

std::vector<bool> reach(const std::vector<std::vector<NodeId>>& next, NodeId from) {
  std::vector<bool> seen(next.size());
  std::vector<NodeId> open{from};
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    for (const NodeId to : next[node]) {
      if (seen[to]) continue;
      seen[to] = true;
      open.push_back(to);
    }
  }
  return seen;
}

/// A node of a loop from which an edge leaves to an output or out of the loop.
bool leaves(const Plan& plan, NodeId node, const std::vector<bool>& loop) {
  return std::ranges::any_of(plan.nodes[node].edges, [&](EdgeId id) {
    const Edge& edge = plan.edges[id];
    return edge.is_output() || !loop[edge.to];
  });
}

void add_error(Diagnostics& diagnostics, const PlanNode& node, std::string code,
               std::string message, std::string suggestion) {
  diagnostics.push_back(
      {Severity::error, node.mark, std::move(code), std::move(message), std::move(suggestion)});
}

std::string join_name(const Plan& plan, const Collector& join) {
  const PlanNode& node = plan.nodes[join.owner];
  if (node.groups.size() == 1) return "'" + node.name + "'";
  return "group " + std::to_string(join.group) + " of '" + node.name + "'";
}

/// The joins and counts, and which of them comes before which.
struct Waits {
  std::vector<const Collector*> joins;
  std::vector<std::vector<std::size_t>> before;  // before[b]: every a that may still feed b
};

Waits waits_of(const Plan& plan) {
  Waits waits;
  for (const Collector& c : plan.collectors)
    if (c.kind == CollectorKind::join || c.kind == CollectorKind::count) waits.joins.push_back(&c);
  const auto predecessors = predecessors_of(plan);
  for (const Collector* join : waits.joins) {
    std::vector<NodeId> slots;
    for (const EdgeId id : plan.nodes[join->owner].groups[join->group].edges)
      slots.push_back(plan.edges[id].from);
    const std::vector<bool> upstream = upstream_of(predecessors, slots, join->root);
    std::vector<std::size_t>& before = waits.before.emplace_back();
    for (std::size_t a = 0; a < waits.joins.size(); ++a)
      if (waits.joins[a]->owner != join->root && upstream[waits.joins[a]->owner])
        before.push_back(a);
  }
  return waits;
}

/// A cycle of the relation, or nothing. Depth first with colours.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<std::size_t>>& before) {
  enum class Colour : std::uint8_t { white, grey, black };
  std::vector<Colour> colour(before.size(), Colour::white);
  for (std::size_t start = 0; start < before.size(); ++start) {
    if (colour[start] != Colour::white) continue;
    std::vector<std::pair<std::size_t, std::size_t>> stack{{start, 0}};
    colour[start] = Colour::grey;
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      if (next == before[at].size()) {
        colour[at] = Colour::black;
        stack.pop_back();
        continue;
      }
      const std::size_t to = before[at][next++];
      if (colour[to] == Colour::grey) {
        std::vector<std::size_t> cycle;
        auto it = stack.end();
        do {
          --it;
          cycle.push_back(it->first);
        } while (it->first != to);
        return cycle;
      }
      if (colour[to] == Colour::black) continue;
      colour[to] = Colour::grey;
      stack.emplace_back(to, 0);
    }
  }
  return {};
}

}  // namespace

void check_loops(Plan& plan, Diagnostics& diagnostics) {
  std::vector<std::vector<NodeId>> successors(plan.nodes.size());
  for (const Edge& edge : plan.edges)
    if (!edge.is_output()) successors[edge.from].push_back(edge.to);
  const auto predecessors = predecessors_of(plan);
  std::vector<bool> placed(plan.nodes.size());
  for (const PlanNode& start : plan.nodes) {
    if (placed[start.id]) continue;
    std::vector<bool> loop = reach(successors, start.id);
    const std::vector<bool> back = reach(predecessors, start.id);
    for (std::size_t n = 0; n < loop.size(); ++n) loop[n] = loop[n] && back[n];
    if (!loop[start.id]) continue;
    bool exit = false;
    for (PlanNode& node : plan.nodes) {
      if (!loop[node.id]) continue;
      placed[node.id] = true;
      node.loop_index = plan.loop_nodes++;
      exit = exit || leaves(plan, node.id, loop);
      if (node.groups.size() == 1 && !node.groups[0].counts.empty())
        add_error(diagnostics, node, "count-in-loop",
                  "node '" + node.name + "' collects by count, so it may not stand in a loop (" +
                      path_text(plan, node.id, node.id, none) + ")",
                  "take '" + node.name + "' out of the loop, or join per turn without `count`");
    }
    if (!exit)
      add_error(diagnostics, start, "loop-without-exit",
                "the loop " + path_text(plan, start.id, start.id, none) +
                    " has no way out: no output and no node outside it can be reached",
                "connect a field of one of its nodes to an output or to a node outside the loop");
  }
}

void check_waits(const Plan& plan, Diagnostics& diagnostics) {
  bool self = false;
  for (const Collector& join : plan.collectors) {
    if (join.kind != CollectorKind::join || join.root != join.owner) continue;
    const PlanNode& node = plan.nodes[join.owner];
    add_error(diagnostics, node, "join-own-root",
              "the join " + join_name(plan, join) + " would wait for frames that only its own " +
                  "firing can bring (" + path_text(plan, node.id, node.id, none) + ")",
              "give it a slot that is fed from outside the loop as a group of its own");
    self = true;
  }
  if (self) return;
  const Waits waits = waits_of(plan);
  const std::vector<std::size_t> cycle = find_cycle(waits.before);
  if (cycle.empty()) return;
  const Collector& first = *waits.joins[cycle.front()];
  const PlanNode& node = plan.nodes[first.owner];
  if (cycle.size() == 1) {
    NodeId slot = first.owner;
    const auto predecessors = predecessors_of(plan);
    for (const EdgeId id : node.groups[first.group].edges) {
      const std::vector<bool> up = upstream_of(predecessors, {plan.edges[id].from}, first.root);
      if (up[first.owner]) slot = plan.edges[id].from;
    }
    add_error(diagnostics, node, "join-waits-for-itself",
              "the join " + join_name(plan, first) + " can wait for ever: its slot '" +
                  plan.nodes[slot].name + "' can be reached from it without passing its root '" +
                  plan.nodes[first.root].name + "' (" +
                  path_text(plan, first.owner, slot, first.root) + ")",
              "let the loop pass '" + plan.nodes[first.root].name +
                  "', or make the slot that comes from the loop a group of its own");
    return;
  }
  std::string names;
  for (const std::size_t i : cycle)
    names += (names.empty() ? "" : ", ") + join_name(plan, *waits.joins[i]);
  add_error(diagnostics, node, "joins-wait-for-each-other",
            "these joins can wait for each other for ever: " + names + " (" +
                path_text(plan, first.owner, waits.joins[cycle.back()]->owner, none) + ")",
            "break the circle: make one of their slots a group of its own");
}

void rank_joins(Plan& plan) {
  const Waits waits = waits_of(plan);
  // How many joins wait for each other in a row before each: without a cycle, that ends.
  std::vector<std::size_t> depth(waits.joins.size());
  std::vector<std::size_t> open(waits.joins.size());  // of those before it, how many have no depth
  std::vector<std::vector<std::size_t>> after(waits.joins.size());
  std::vector<std::size_t> done;
  for (std::size_t b = 0; b < waits.joins.size(); ++b) {
    open[b] = waits.before[b].size();
    for (const std::size_t a : waits.before[b]) after[a].push_back(b);
    if (open[b] == 0) done.push_back(b);
  }
  for (std::size_t next = 0; next < done.size(); ++next)
    for (const std::size_t b : after[done[next]]) {
      depth[b] = std::max(depth[b], depth[done[next]] + 1);
      if (--open[b] == 0) done.push_back(b);
    }
  SLUICE_CHECK(done.size() == depth.size(), "joins wait for each other");
  std::ranges::sort(done, {}, [&](std::size_t j) {
    return std::tuple(depth[j], waits.joins[j]->group,
                      std::string_view(plan.nodes[waits.joins[j]->owner].name));
  });
  for (std::size_t rank = 0; rank < done.size(); ++rank)
    plan.collectors[waits.joins[done[rank]]->id].rank = static_cast<std::uint16_t>(rank);
}

}  // namespace sluice::compiling
