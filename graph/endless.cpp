// Loops that no frame leaves: by their roles' declarations, all that comes out goes round again
// too.
#include <algorithm>
#include <string>
#include <vector>

#include "graph/compile.h"

namespace sluice::compiling {

namespace {

/// Whether the node may end a turn of its loop: by its declaration it may yield a frame that does
/// not surely run a node of the loop, or more or fewer frames than one for one.
bool may_end(const Plan& plan, const PlanNode& node, const std::vector<bool>& loop) {
  if (node.yields_max != 1) return true;
  if (node.skip_errors || node.max_age.count() > 0) return true;  // the limit, or the age, ends it
  const auto goes_on = [&](std::uint64_t frame) {
    return std::ranges::any_of(node.edges, [&](EdgeId id) {
      const Edge& edge = plan.edges[id];
      return !edge.is_output() && loop[edge.to] && edge.takes(frame) &&
             plan.nodes[edge.to].groups[edge.group].collector ==
                 none;  // a join may stay incomplete
    });
  };
  if (node.frames.empty()) return !goes_on(~std::uint64_t{0});  // all outputs in each frame
  return !std::ranges::all_of(node.frames, goes_on);
}

}  // namespace

void warn_of_endless_loops(const Plan& plan, Diagnostics& diagnostics) {
  const auto before = predecessors_of(plan);
  std::vector<std::vector<NodeId>> behind(plan.nodes.size());
  for (const Edge& edge : plan.edges)
    if (!edge.is_output()) behind[edge.from].push_back(edge.to);
  std::vector<bool> looked_at(plan.nodes.size());
  for (const PlanNode& start : plan.nodes) {
    if (start.loop_index == none || looked_at[start.id]) continue;
    const std::vector<bool> there = upstream_of(behind, {start.id}, none);
    std::vector<bool> loop = upstream_of(before, {start.id}, none);
    bool ends = false;
    for (const PlanNode& node : plan.nodes) {
      loop[node.id] = loop[node.id] && there[node.id];
      looked_at[node.id] = looked_at[node.id] || loop[node.id];
    }
    for (const PlanNode& node : plan.nodes)
      ends = ends || (loop[node.id] && may_end(plan, node, loop));
    if (ends) continue;
    const std::string turns = std::to_string(plan.limits.loop_iterations);
    report(
        diagnostics,
        {Severity::warning, start.mark, "endless-loop",
         "every frame of the loop " + path_text(plan, start.id, start.id, none) +
             " goes round it again, what leaves it too: unless a node yields nothing, the call " +
             "fails after " + turns + " turns (limits: loop_iterations)",
         "lead a field out of it that comes without those that lead back, or write the nodes "
         "one behind the other"});
  }
}

}  // namespace sluice::compiling
