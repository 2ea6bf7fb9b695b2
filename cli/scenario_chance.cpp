#include "cli/scenario_chance.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

namespace sluice::cli {

namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds never = nanoseconds::max();

std::int64_t steps_of(const std::vector<std::uint64_t>& yields) {
  return static_cast<std::int64_t>(std::max<std::size_t>(1, yields.size()));
}

/// An activation yields in equal steps over its latency, and ends with the last of them or a
/// quarter of a step later (runtime/sim/simulation.cpp). What always comes at the deadline itself
/// may stand on either side of it; a latency that is drawn is never quite its least.
bool is_within(nanoseconds deadline, const NodeScript& does,
               const std::vector<std::uint64_t>& yields) {
  const std::int64_t steps = steps_of(yields);
  const nanoseconds least = does.latency_least / steps;
  const nanoseconds most = does.latency_most / steps;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const nanoseconds last = most * step + (step == steps ? most / 4 : nanoseconds{});
    const bool in_time = least == most ? least * step <= deadline : least * step < deadline;
    if (in_time && deadline <= last) return true;
  }
  return false;
}

bool is_late_by_chance(const PlanNode& node, const NodeScript& does) {
  return node.deadline.count() != 0 && std::ranges::any_of(does.by_iteration, [&](const auto& one) {
           return is_within(node.deadline, does, one);
         });
}

nanoseconds first_yield(const NodeScript& does) {
  nanoseconds first = never;
  for (const auto& yields : does.by_iteration)
    first = std::min(first, does.latency_least / steps_of(yields));
  return first;
}

/// The soonest that each node can begin, by the shortest way from the entry: no call's frames are
/// younger there.
std::vector<nanoseconds> soonest_begins(const Plan& plan, const Script& script) {
  std::vector<nanoseconds> begins(plan.nodes.size(), never);
  begins[entry_node] = {};
  for (bool sooner = true; sooner;) {
    sooner = false;
    for (const PlanNode& node : plan.nodes)
      for (const PlanGroup& group : node.groups)
        for (const EdgeId edge : group.edges) {
          const NodeId from = plan.edges[edge].from;
          if (begins[from] == never) continue;
          const nanoseconds takes =
              from == entry_node ? nanoseconds{} : first_yield(script.nodes[from]);
          if (begins[from] + takes >= begins[node.id]) continue;
          begins[node.id] = begins[from] + takes;
          sooner = true;
        }
  }
  return begins;
}

}  // namespace

ByChance find_chance(const Plan& plan, const Script& script) {
  ByChance chance;
  const std::vector<nanoseconds> begins = soonest_begins(plan, script);
  for (const PlanNode& node : plan.nodes) {
    chance.deadline.push_back(node.id != entry_node &&
                              is_late_by_chance(node, script.nodes[node.id]));
    chance.max_age.push_back(node.max_age.count() != 0 && begins[node.id] <= node.max_age);
  }
  return chance;
}

bool dropped_by_chance(const Plan& plan, const ByChance& chance, const sim::CallReport& call) {
  return std::ranges::any_of(plan.nodes, [&](const PlanNode& node) {
    const std::string words = node.name + ": inputs older than max_age";
    return chance.max_age[node.id] &&
           std::ranges::any_of(call.warnings, [&](const std::string& warning) {
             return warning.starts_with(words);
           });
  });
}

}  // namespace sluice::cli
