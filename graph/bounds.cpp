// How much can happen in one call: the most activations of a node, frames and bytes of an edge.
//
// A node runs once for each frame of a direct group, once for each yield of a join's root, once for
// a count; on each replica where it is told to (`balance: broadcast`). Roles say how many frames an
// activation yields at most, and how large a value is; where one does not, or in a loop, there is
// no bound. And where what comes in a call is counted when it runs, since frames may multiply on
// their way (`limits: frames`).
#include <algorithm>
#include <optional>

#include "graph/compile.h"

namespace sluice::compiling {

namespace {

constexpr std::uint64_t unbounded = 0;
constexpr std::uint64_t most = std::uint64_t{1} << 40;  // above, a bound says nothing

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  if (a == unbounded || b == unbounded) return unbounded;
  return a > most / b ? unbounded : a * b;
}

class Bounds {
 public:
  explicit Bounds(Plan& plan) : plan_(plan), state_(plan.nodes.size(), State::fresh) {}

  void run() {
    plan_.nodes[entry_node].activations_max = 1;
    plan_.nodes[entry_node].yields_max = 1;
    state_[entry_node] = State::known;
    for (const PlanNode& node : plan_.nodes) (void)activations(node.id);
    for (Edge& edge : plan_.edges) {
      edge.frames_max = frames(edge.from);
      edge.bytes_max = times(edge.frames_max, bytes_of_frame(edge));
    }
  }

 private:
  enum class State : std::uint8_t { fresh, open, known };

  std::uint64_t frames(NodeId node) {
    return times(activations(node), plan_.nodes[node].yields_max);
  }

  std::uint64_t bytes_of_frame(const Edge& edge) const {
    const std::vector<std::uint64_t>& sizes = plan_.nodes[edge.from].output_bytes_max;
    std::uint64_t sum = 0;
    for (const FieldMap& map : edge.fields) {
      const std::uint64_t size = map.from < sizes.size() ? sizes[map.from] : unbounded;
      if (size == unbounded) return unbounded;
      sum += size;
    }
    return sum;
  }

  std::uint64_t activations(NodeId id) {
    PlanNode& node = plan_.nodes[id];
    if (state_[id] == State::known) return node.activations_max;
    if (state_[id] == State::open || node.loop_index != none) return unbounded;
    state_[id] = State::open;
    std::uint64_t sum = 0;
    bool bounded = true;
    for (const PlanGroup& group : node.groups) {
      std::uint64_t runs = 1;
      if (group.collector == none)
        runs = group.edges.empty() ? 0 : frames(plan_.edges[group.edges[0]].from);
      else if (group.counts.empty())
        runs = frames(plan_.collectors[group.collector].root);
      bounded = bounded && runs != unbounded;
      sum += runs;
    }
    node.activations_max = bounded ? times(sum, node.fan_out()) : unbounded;
    state_[id] = State::known;
    return node.activations_max;
  }

  Plan& plan_;
  std::vector<State> state_;
};

/// How frames come to a node: along how many streams of unknown length that multiply each other,
/// and how many frames of one and the same stream's frame.
struct Ways {
  std::uint64_t streams = 0;
  std::uint64_t each = 0;
};

/// Which nodes' frames are counted. A stream is what one node yields, where that may be several
/// frames. One stream is no multiplication, however long it is, and neither is one that comes to a
/// node along a few ways: most such ways are branches. What comes to a node that counts is bounded,
/// so behind it a stream begins anew.
class Counted {
 public:
  explicit Counted(Plan& plan) : plan_(plan), known_(plan.nodes.size()) {}

  void run() {
    known_[entry_node] = Ways{0, 1};
    for (const PlanNode& node : plan_.nodes) (void)ways(node.id);
  }

 private:
  static constexpr std::uint64_t few = 64;
  static constexpr std::uint64_t most_ways = std::uint64_t{1} << 40;

  Ways yielded(NodeId id) {
    Ways ways = this->ways(id);
    if (id != entry_node && plan_.nodes[id].yields_max != 1) ++ways.streams;
    return ways;
  }

  Ways ways(NodeId id) {
    PlanNode& node = plan_.nodes[id];
    if (known_[id]) return *known_[id];
    if (node.loop_index != none) {
      node.frames_counted = true;
      known_[id] = Ways{1, 1};
      return *known_[id];
    }
    Ways sum;
    for (const PlanGroup& group : node.groups) {
      Ways one{0, 1};
      if (group.collector == none)
        one = group.edges.empty() ? Ways{} : yielded(plan_.edges[group.edges[0]].from);
      else if (group.counts.empty())
        one = yielded(plan_.collectors[group.collector].root);
      sum = {std::max(sum.streams, one.streams), std::min(sum.each + one.each, most_ways)};
    }
    sum.each = std::min(sum.each * node.fan_out(), most_ways);
    const auto limit = static_cast<std::uint64_t>(plan_.limits.frames);
    const bool within = node.activations_max != unbounded && node.activations_max <= limit;
    node.frames_counted = !within && (sum.streams > 1 || sum.each > few);
    if (node.frames_counted) sum = {1, 1};
    known_[id] = sum;
    return sum;
  }

  Plan& plan_;
  std::vector<std::optional<Ways>> known_;
};

}  // namespace

void bound_frames(Plan& plan) {
  Bounds(plan).run();
  Counted(plan).run();
}

void warn_of_counts_too_large(const Plan& plan, Diagnostics& diagnostics) {
  for (const PlanNode& node : plan.nodes)
    for (const PlanGroup& group : node.groups)
      for (const PlanCount& count : group.counts) {
        if (count.kind != PlanCount::Kind::literal || count.literal <= 0) continue;
        std::uint64_t come = 0;
        bool bounded = true;
        for (const EdgeId id : group.edges) {
          const Edge& edge = plan.edges[id];
          // Of one frame several fields may come as this one.
          const auto fields = static_cast<std::uint64_t>(
              std::ranges::count(edge.fields, count.field, &FieldMap::to));
          if (fields == 0) continue;
          bounded = bounded && edge.frames_max != unbounded;
          come += times(edge.frames_max, fields);
        }
        if (!bounded || come >= static_cast<std::uint64_t>(count.literal)) continue;
        report(diagnostics, {Severity::warning, node.mark, "count-never-reached",
                             "node '" + node.name + "' waits for " + std::to_string(count.literal) +
                                 " frames of '" + group.fields[count.field] + "', and at most " +
                                 std::to_string(come) + (come == 1 ? " comes" : " come") +
                                 " in a call: it never runs",
                             "count what comes, or `all` of it"});
      }
}

void warn_of_growing_loops(const Plan& plan, Diagnostics& diagnostics) {
  // A join collects: however much comes to it, it runs once for each yield of its root.
  std::vector<std::vector<NodeId>> before(plan.nodes.size());
  for (const Edge& edge : plan.edges)
    if (!edge.is_output() && edge.direct) before[edge.to].push_back(edge.from);
  for (const Collector& c : plan.collectors)
    if (c.kind == CollectorKind::join) before[c.owner].push_back(c.root);
  for (const PlanNode& node : plan.nodes) {
    if (node.fan_out() == 1 || node.loop_index == none) continue;
    if (!upstream_of(before, before[node.id], none)[node.id]) continue;
    const std::string each = std::to_string(node.fan_out());
    report(diagnostics,
           {Severity::warning, node.mark, "broadcast-in-loop",
            "node '" + node.name + "' runs on each of " + each +
                " replicas, and what each of them makes may come back to it: with each turn of " +
                "its loop there may be " + each + " times as much",
            "collect what the replicas make before it goes back: a group that reads it and a " +
                ("field of the node before '" + node.name + "'")});
  }
}

void warn_of_empty_queues(const Plan& plan, Diagnostics& diagnostics) {
  for (const PlanNode& node : plan.nodes) {
    const std::uint64_t held = std::uint64_t{node.at_once()} + node.queue_max;
    if (node.queue_max == 0 || node.activations_max == unbounded ||
        node.activations_max > held * node.fan_out())
      continue;
    report(diagnostics,
           {Severity::warning, node.mark, "drops-nothing",
            "node '" + node.name + "' runs at most " + std::to_string(node.activations_max) +
                (node.activations_max == 1 ? " time" : " times") + " in a call, so its queue of " +
                std::to_string(node.queue_max) + " is never full (on_full: drop_oldest)",
            "remove `on_full`: calls do not push out each other's frames; `max_age` and limits: "
            "calls are for many calls"});
  }
}

}  // namespace sluice::compiling
