#include "runtime/node/wait_graphs.h"

#include <algorithm>
#include <map>
#include <string>

#include "runtime/inproc/role_host.h"

namespace sluice {

namespace {

constexpr std::size_t all_bytes = std::size_t{32} << 20U;
constexpr std::size_t window_most = std::size_t{4} << 20U;
constexpr std::size_t window_least = std::size_t{64} << 10U;

/// Names that are one.
class Places {
 public:
  std::uint32_t of(const std::string& name) {
    const auto next = static_cast<std::uint32_t>(same_.size());
    const auto [at, is_new] = numbers_.emplace(name, next);
    if (is_new) same_.push_back(next);
    return root(at->second);
  }
  void unite(std::uint32_t a, std::uint32_t b) { same_[root(b)] = root(a); }
  std::uint32_t root(std::uint32_t place) const {
    while (same_[place] != place) place = same_[place];
    return place;
  }

 private:
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::uint32_t> same_;
};

std::string included_from(const WorkflowSpec& spec, const std::string& param) {
  for (const GlobalParamSpec& one : spec.global_params)
    if (one.name.text == param) return one.included_from;
  return {};
}

}  // namespace

std::vector<WaitGraph> wait_graphs(std::span<const Graph> graphs) {
  Places places;
  std::vector<WaitGraph> waits;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const WorkflowSpec& spec = *graphs[i].spec;
    WaitGraph& graph = waits.emplace_back(WaitGraph{graphs[i].plan, {}});
    for (const PlanNode& node : graph.plan->nodes) {
      if (node.id == entry_node) {
        graph.places.push_back(0);
        continue;
      }
      const RoleSpec& executor = spec.roles[node.executor];
      const std::uint32_t place =
          places.of("role " + identity_of(i, executor.name.text, executor.included_from));
      graph.places.push_back(place);
      for (const Name& param : spec.roles[node.role].global_params)
        places.unite(place, places.of("param " +
                                      identity_of(i, param.text, included_from(spec, param.text))));
    }
  }
  for (WaitGraph& graph : waits)
    for (const PlanNode& node : graph.plan->nodes)
      if (node.id != entry_node) graph.places[node.id] = places.root(graph.places[node.id]);
  return waits;
}

std::size_t window_for(std::span<const Graph> graphs, const std::vector<RoleMachines>& placed,
                       const std::vector<std::uint32_t>& homes) {
  std::size_t edges = 1;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const auto machines = [&](NodeId node) -> const std::vector<std::uint32_t>& {
      return node == entry_node ? homes : placed[i][graphs[i].plan->nodes[node].role];
    };
    for (const Edge& edge : graphs[i].plan->edges)
      for (const std::uint32_t from : machines(edge.from))
        edges += static_cast<std::size_t>(
            std::ranges::count_if(machines(edge.to), [&](std::uint32_t to) { return to != from; }));
  }
  return std::clamp(all_bytes / edges, window_least, window_most);
}

}  // namespace sluice
