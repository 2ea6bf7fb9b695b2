#include "runtime/windows.h"

#include <algorithm>
#include <utility>

namespace sluice {

namespace {

/// Of a window, before it is worth a message. A producer that waits is owed a whole window, so
/// what it waits for is told.
constexpr std::size_t told_parts = 4;

/// Places in an order in which a walk from the entries leaves them, the last first: of all edges
/// only those that close a circle of the walk lead back.
class Order {
 public:
  explicit Order(std::span<const WaitGraph> graphs) {
    std::uint32_t places = 0;
    for (const WaitGraph& graph : graphs)
      for (const Edge& edge : graph.plan->edges)
        if (!edge.is_output()) places = std::max(places, graph.places[edge.to] + 1);
    next_.resize(places);
    rank_.assign(places, 0);
    seen_.assign(places, false);
    for (const WaitGraph& graph : graphs)
      for (const Edge& edge : graph.plan->edges)
        if (edge.from != entry_node && !edge.is_output())
          next_[graph.places[edge.from]].push_back(graph.places[edge.to]);
    left_ = places;
    for (const WaitGraph& graph : graphs)
      for (const Edge& edge : graph.plan->edges)
        if (edge.from == entry_node && !edge.is_output()) walk(graph.places[edge.to]);
    for (std::uint32_t place = 0; place < places; ++place) walk(place);
  }
  std::uint32_t rank(std::uint32_t place) const { return rank_[place]; }

 private:
  void walk(std::uint32_t from) {
    if (seen_[from]) return;
    seen_[from] = true;
    std::vector<std::pair<std::uint32_t, std::size_t>> path{{from, 0}};
    while (!path.empty()) {
      auto& [at, i] = path.back();
      if (i == next_[at].size()) {
        rank_[at] = --left_;
        path.pop_back();
        continue;
      }
      const std::uint32_t to = next_[at][i++];
      if (seen_[to]) continue;
      seen_[to] = true;
      path.emplace_back(to, 0);
    }
  }

  std::vector<std::vector<std::uint32_t>> next_;
  std::vector<std::uint32_t> rank_;
  std::vector<bool> seen_;
  std::uint32_t left_ = 0;
};

/// The row's entry of this machine; a new one where there is none.
template <typename Row>
auto& of_machine(std::vector<Row>& rows, std::uint32_t Row::*machine, std::uint32_t which) {
  for (Row& row : rows)
    if (row.*machine == which) return row;
  rows.emplace_back().*machine = which;
  return rows.back();
}

}  // namespace

WaitGraph by_executor(const Plan& plan) {
  WaitGraph graph{&plan, {}};
  for (const PlanNode& node : plan.nodes)
    graph.places.push_back(node.id == entry_node ? 0 : node.executor);
  return graph;
}

std::vector<std::vector<bool>> stopping_edges(std::span<const WaitGraph> graphs) {
  const Order order(graphs);
  std::vector<std::vector<bool>> stops;
  for (const WaitGraph& graph : graphs) {
    std::vector<bool>& of_graph = stops.emplace_back();
    for (const Edge& edge : graph.plan->edges)
      of_graph.push_back(edge.from == entry_node || edge.is_output() ||
                         order.rank(graph.places[edge.from]) < order.rank(graph.places[edge.to]));
  }
  return stops;
}

Windows::Windows(const Plan& plan, std::vector<bool> stops, std::size_t window)
    : plan_(plan),
      stops_(std::move(stops)),
      window_(window),
      sent_(plan.edges.size()),
      taken_(plan.edges.size()),
      full_(plan.nodes.size()),
      in_hand_(plan.nodes.size()),
      ends_(plan.nodes.size()) {}

void Windows::sent(EdgeId edge, std::uint32_t to, std::size_t bytes) {
  Sent& sent = of_machine(sent_[edge], &Sent::to, to);
  const bool was_full = is_full(sent);
  sent.bytes += bytes;
  note(edge, was_full, is_full(sent));
}

void Windows::note(EdgeId edge, bool was_full, bool is_full) {
  if (was_full == is_full || !stops_[edge]) return;
  const NodeId node = plan_.edges[edge].from;
  const bool might = may_yield(node);
  is_full ? ++full_[node] : --full_[node];
  if (might != may_yield(node)) changed_.push_back(node);
}

bool Windows::returned(EdgeId edge, std::uint32_t by, std::uint64_t bytes) {
  Sent& sent = of_machine(sent_[edge], &Sent::to, by);
  if (bytes > sent.bytes) return false;
  const bool was_full = is_full(sent);
  sent.bytes -= bytes;
  note(edge, was_full, is_full(sent));
  return true;
}

std::uint64_t Windows::owed(EdgeId edge, std::uint32_t by) const {
  for (const Sent& sent : sent_[edge])
    if (sent.to == by) return sent.bytes;
  return 0;
}

std::uint64_t Windows::kept(EdgeId edge, std::uint32_t from) const {
  for (const Taken& taken : taken_[edge]) {
    if (taken.from != from) continue;
    std::uint64_t bytes = taken.back;
    for (const std::uint64_t frame : taken.frames) bytes += frame;
    return bytes;
  }
  return 0;
}

void Windows::took(EdgeId edge, std::uint32_t from, std::size_t bytes) {
  Taken& taken = of_machine(taken_[edge], &Taken::from, from);
  taken.frames.push_back(bytes);
  const NodeId node = plan_.edges[edge].to;
  // A node that drops what waits bounds it by itself, and nobody waits for it.
  if (in_hand_[node] == 0 || plan_.nodes[node].queue_max != 0) give_back(edge, taken, true);
}

void Windows::ended(NodeId node) {
  // One frame an edge for each that ends; all when nothing is in hand: what came waits for others
  // then (in a bucket or an order), and these may be held up by the very window that it fills.
  const bool all = --in_hand_[node] == 0;
  // A frame that runs on each replica is done when all have ended: by their number, or the fastest
  // would let more and more come for the others.
  if (!all && ++ends_[node] < plan_.nodes[node].fan_out()) return;
  ends_[node] = 0;
  for (const PlanGroup& group : plan_.nodes[node].groups)
    for (const EdgeId edge : group.edges)
      for (Taken& taken : taken_[edge]) give_back(edge, taken, all);
}

void Windows::give_back(EdgeId edge, Taken& taken, bool all) {
  for (bool more = true; more && !taken.frames.empty(); more = all) {
    taken.back += taken.frames.front();
    taken.frames.pop_front();
  }
  if (taken.back == 0 || taken.back < window_ / told_parts) return;
  returns_.push_back({taken.from, edge, std::exchange(taken.back, 0)});
}

void Windows::forget(std::uint32_t machine) {
  for (std::size_t edge = 0; edge < sent_.size(); ++edge) {
    for (Sent& sent : sent_[edge]) {
      if (sent.to != machine) continue;
      note(static_cast<EdgeId>(edge), is_full(sent), false);
      sent.bytes = 0;
    }
    std::erase_if(taken_[edge], [&](const Taken& taken) { return taken.from == machine; });
  }
  std::erase_if(returns_, [&](const Return& one) { return one.to == machine; });
}

}  // namespace sluice
