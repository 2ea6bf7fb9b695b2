// Graphs that could wait for ever are refused here, with the path that shows why.
#include <algorithm>
#include <iterator>
#include <set>
#include <string>
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

void add_error(Diagnostics& diagnostics, Mark mark, std::string code, std::string message,
               std::string suggestion) {
  report(diagnostics,
         {Severity::error, mark, std::move(code), std::move(message), std::move(suggestion)});
}

std::string join_name(const Plan& plan, const Collector& join) {
  const PlanNode& node = plan.nodes[join.owner];
  if (node.groups.size() == 1) return "'" + node.name + "'";
  return "group " + std::to_string(join.group) + " of '" + node.name + "'";
}

/// A group as the file would write it, with the slots that `chosen` takes.
template <typename Chosen>
std::string group_text(const Plan& plan, const PlanGroup& group, Chosen chosen) {
  std::string text;
  for (std::size_t field = 0; field < group.fields.size(); ++field) {
    std::string sources;
    std::size_t count = 0;
    for (const EdgeId id : group.edges)
      for (const FieldMap& map : plan.edges[id].fields) {
        if (map.to != field || !chosen(plan.edges[id])) continue;
        const PlanNode& from = plan.nodes[plan.edges[id].from];
        sources += (count++ == 0 ? "" : ", ") + from.name + "." + from.outputs[map.from];
      }
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + group.fields[field] + ": " +
            (count > 1 ? "[" + sources + "]" : sources);
  }
  return "{ " + text + " }";
}

/// The join's edges that can bring what `owner` made, its root not passed.
std::vector<bool> slots_from(const Plan& plan, const Collector& join, NodeId owner) {
  std::vector<bool> slots(plan.edges.size());
  const auto predecessors = predecessors_of(plan);
  for (const EdgeId id : plan.nodes[join.owner].groups[join.group].edges)
    slots[id] = upstream_of(predecessors, {plan.edges[id].from}, join.root)[owner];
  return slots;
}

Mark first_mark(const Plan& plan, const PlanGroup& group, const std::vector<bool>& slots) {
  for (const EdgeId id : group.edges)
    if (slots[id]) return plan.edges[id].mark;
  return plan.edges[group.edges[0]].mark;
}

/// What to write instead of a join some of whose slots come from what it feeds.
std::string parted(const Plan& plan, const Collector& join, const std::vector<bool>& slots) {
  const PlanGroup& group = plan.nodes[join.owner].groups[join.group];
  const auto in_loop = [&](const Edge& edge) { return slots[edge.id]; };
  const std::string loop = group_text(plan, group, in_loop);
  const std::string rest = group_text(plan, group, [&](const Edge& e) { return !in_loop(e); });
  return rest == "{  }" ? "" : "write two groups, `" + rest + "` and `" + loop + "`";
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

/// That no output depends on the loop or on what leads into it: both follow from its having no way
/// out.
void forget_unused(const Plan& plan, const std::vector<bool>& leads_there,
                   Diagnostics& diagnostics) {
  std::erase_if(diagnostics, [&](const Diagnostic& one) {
    return one.code == "unused-node" && std::ranges::any_of(plan.nodes, [&](const PlanNode& node) {
             return leads_there[node.id] && node.mark.line == one.mark.line &&
                    node.mark.column == one.mark.column;
           });
  });
}

}  // namespace

void check_loops(Plan& plan, const Dominators& dominators, const Doubts& doubts,
                 Diagnostics& diagnostics) {
  std::vector<std::vector<NodeId>> successors(plan.nodes.size());
  for (const Edge& edge : plan.edges)
    if (!edge.is_output()) successors[edge.from].push_back(edge.to);
  const auto predecessors = predecessors_of(plan);
  std::vector<bool> placed(plan.nodes.size());
  for (const PlanNode& start : plan.nodes) {
    if (placed[start.id] || !dominators.reachable(start.id)) continue;
    std::vector<bool> loop = reach(successors, start.id);
    if (!loop[start.id]) continue;
    const std::vector<bool> back = reach(predecessors, start.id);
    for (std::size_t n = 0; n < loop.size(); ++n) loop[n] = loop[n] && back[n];
    bool exit = false;
    for (PlanNode& node : plan.nodes) {
      if (!loop[node.id]) continue;
      placed[node.id] = true;
      node.loop_index = plan.loop_nodes++;
      exit = exit || leaves(plan, node.id, loop);
      if (node.groups.size() == 1 && !node.groups[0].counts.empty())
        add_error(diagnostics, node.mark, "count-in-loop",
                  "node '" + node.name + "' collects by count, so it may not stand in a loop (" +
                      path_text(plan, node.id, node.id, none) + ")",
                  "take '" + node.name + "' out of the loop, or join per turn without `count`");
      if (node.queue_max != 0)
        add_error(diagnostics, node.mark, "drops-in-loop",
                  "node '" + node.name +
                      "' drops what waits for it (on_full: drop_oldest), so it " +
                      "may not stand in a loop (" + path_text(plan, node.id, node.id, none) +
                      "): with a frame, all its further turns would be gone",
                  "give `on_full` to a node in front of the loop");
    }
    // A name that is wrong may have been the way out; that there are no outputs is said.
    if (exit || doubts.any || plan.outputs.empty()) continue;
    forget_unused(plan, back, diagnostics);
    add_error(diagnostics, start.mark, "loop-without-exit",
              "the loop " + path_text(plan, start.id, start.id, none) +
                  " has no way out: no output and no node outside it can be reached",
              "connect a field of one of its nodes to an output or to a node outside the loop");
  }
}

namespace {

/// A join that collects what descends from its own firing.
void report_own_root(const Plan& plan, const Collector& join, Diagnostics& diagnostics) {
  const PlanNode& node = plan.nodes[join.owner];
  const PlanGroup& group = node.groups[join.group];
  add_error(diagnostics, plan.edges[group.edges[0]].mark, "join-own-root",
            "the join " + join_name(plan, join) + " would wait for frames that only its own " +
                "firing can bring (" + path_text(plan, node.id, node.id, none) + ")",
            "collect `" + group_text(plan, group, [](const Edge&) { return true; }) +
                "` in a node of its own, and give '" + node.name + "' what that node makes");
}

/// 'a', 'b' and 'c'.
std::string list_of(const std::set<std::string>& names) {
  std::string text;
  for (auto it = names.begin(); it != names.end(); ++it)
    text += (it == names.begin() ? "" : std::next(it) == names.end() ? " and " : ", ") + *it;
  return text;
}

void report_cycle(const Plan& plan, const Waits& waits, const std::vector<std::size_t>& cycle,
                  Diagnostics& diagnostics) {
  const Collector& first = *waits.joins[cycle.front()];
  const Collector& last = *waits.joins[cycle.back()];
  const PlanNode& node = plan.nodes[first.owner];
  const PlanGroup& group = node.groups[first.group];
  const std::vector<bool> slots = slots_from(plan, first, last.owner);
  const Mark mark = first_mark(plan, group, slots);
  const std::string instead = parted(plan, first, slots);
  const std::string& root = plan.nodes[first.root].name;
  if (cycle.size() == 1) {
    const auto id = std::ranges::find_if(group.edges, [&](EdgeId edge) { return slots[edge]; });
    const NodeId slot = id == group.edges.end() ? first.owner : plan.edges[*id].from;
    std::set<std::string> sources;
    for (const EdgeId edge : group.edges)
      if (slots[edge]) sources.insert("'" + plan.nodes[plan.edges[edge].from].name + "'");
    add_error(diagnostics, mark, "join-waits-for-itself",
              "the join " + join_name(plan, first) + " can wait for ever: its slot '" +
                  plan.nodes[slot].name + "' can be reached from it without passing its root '" +
                  root + "' (" + path_text(plan, first.owner, slot, first.root) + ")",
              (instead.empty() ? "" : instead + "; or ") +
                  (sources.size() > 1
                       ? "put one node in front of " + list_of(sources) +
                             " that takes all they read, a group for the first turn and one for " +
                             "what comes back, and let them read from it: then it is the root"
                       : "let '" + plan.nodes[slot].name + "' hand on what '" + node.name +
                             "' needs, and read all of it from there"));
    return;
  }
  std::string names;
  for (const std::size_t i : cycle)
    names += (names.empty() ? "" : ", ") + join_name(plan, *waits.joins[i]);
  add_error(diagnostics, mark, "joins-wait-for-each-other",
            "these joins can wait for each other for ever: " + names + " (" +
                path_text(plan, first.owner, last.owner, none) + ")",
            instead.empty() ? "break the circle: make one of their slots a group of its own"
                            : "break the circle: " + instead + " of '" + node.name + "'");
}

/// Whose verdict a wrong name could change: what lies downstream of a node that lacks an edge.
std::vector<bool> in_doubt(const Plan& plan, const Doubts& doubts) {
  std::vector<bool> found = doubts.nodes;
  std::vector<NodeId> open;
  for (const PlanNode& node : plan.nodes)
    if (found[node.id]) open.push_back(node.id);
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    for (const EdgeId id : plan.nodes[node].edges) {
      const Edge& edge = plan.edges[id];
      if (edge.is_output() || found[edge.to]) continue;
      found[edge.to] = true;
      open.push_back(edge.to);
    }
  }
  return found;
}

/// Takes out of the relation all that stands in one circle with `member`.
void remove_circle(std::vector<std::vector<std::size_t>>& before, std::size_t member) {
  std::vector<std::vector<std::size_t>> after(before.size());
  for (std::size_t b = 0; b < before.size(); ++b)
    for (const std::size_t a : before[b]) after[a].push_back(b);
  const auto reached = [&](const std::vector<std::vector<std::size_t>>& next) {
    std::vector<bool> seen(next.size());
    std::vector<std::size_t> open{member};
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      if (seen[at]) continue;
      seen[at] = true;
      open.insert(open.end(), next[at].begin(), next[at].end());
    }
    return seen;
  };
  const std::vector<bool> up = reached(before);
  const std::vector<bool> down = reached(after);
  const auto gone = [&](std::size_t i) { return up[i] && down[i]; };
  for (std::size_t b = 0; b < before.size(); ++b) {
    if (gone(b)) before[b].clear();
    std::erase_if(before[b], gone);
  }
}

}  // namespace

void check_waits(const Plan& plan, const Doubts& doubts, Diagnostics& diagnostics) {
  constexpr std::size_t circles_max = 20;
  const std::vector<bool> doubtful = in_doubt(plan, doubts);
  Waits waits = waits_of(plan);
  // A count in a loop is refused as such.
  const auto uncertain = [&](std::size_t i) {
    const Collector& join = *waits.joins[i];
    return doubtful[join.owner] ||
           (join.kind == CollectorKind::count && plan.nodes[join.owner].loop_index != none);
  };
  for (std::size_t i = 0; i < waits.joins.size(); ++i) {
    if (uncertain(i)) waits.before[i].clear();
    std::erase_if(waits.before[i], uncertain);
  }
  std::size_t circles = 0;
  for (std::size_t i = 0; i < waits.joins.size() && circles < circles_max; ++i) {
    const Collector& join = *waits.joins[i];
    if (join.kind != CollectorKind::join || join.root != join.owner || uncertain(i)) continue;
    report_own_root(plan, join, diagnostics);
    remove_circle(waits.before, i);
    ++circles;
  }
  // One error for each circle; what else stands in the same circle is the same mistake.
  for (; circles < circles_max; ++circles) {
    const std::vector<std::size_t> cycle = find_cycle(waits.before);
    if (cycle.empty()) return;
    report_cycle(plan, waits, cycle, diagnostics);
    remove_circle(waits.before, cycle.front());
  }
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
