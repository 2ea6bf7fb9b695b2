#include "graph/replica_units.h"

#include <algorithm>
#include <utility>

#include "graph/replica_split.h"
#include "graph/together.h"

namespace sluice {

namespace {

struct Units {
  std::vector<Replicas::Unit> units;
  std::vector<std::uint16_t> of_role;  // `none`: it is on one machine
};

Units units_of(const WorkflowSpec& spec, const RoleMachines& placed) {
  const auto index = [&](const RoleSpec* role) {
    return static_cast<std::size_t>(role - spec.roles.data());
  };
  // By role: one that it goes with, itself at the end.
  std::vector<std::size_t> with(spec.roles.size());
  for (std::size_t i = 0; i < with.size(); ++i) with[i] = i;
  const auto first_of = [&](std::size_t role) {
    while (with[role] != role) role = with[role];
    return role;
  };
  for (const TogetherRoles& pair : roles_together(spec)) {
    if (is_split(*pair.first, placed[index(pair.first)])) continue;
    const std::size_t a = first_of(index(pair.first)), b = first_of(index(pair.second));
    if (placed[a] == placed[b]) with[std::max(a, b)] = std::min(a, b);
  }
  Units made{{}, std::vector<std::uint16_t>(with.size(), none)};
  for (std::size_t role = 0; role < with.size(); ++role) {
    // One that each call runs on all replicas of has its nodes on the first machine in every call.
    if (placed[role].size() < 2 || is_split(spec.roles[role], placed[role])) continue;
    const std::size_t first = first_of(role);  // stands no later
    if (first == role) {
      made.of_role[role] = static_cast<std::uint16_t>(made.units.size());
      made.units.push_back({placed[role]});
    }
    made.of_role[role] = made.of_role[first];
    Replicas::Unit& unit = made.units[made.of_role[role]];
    unit.by_session = unit.by_session || spec.roles[role].balance == Balance::session;
    unit.by_cache = unit.by_cache || spec.roles[role].by_cache;
  }
  return made;
}

}  // namespace

std::uint64_t choices_of(const WorkflowSpec& spec, const RoleMachines& placed) {
  std::uint64_t choices = 1;
  for (const Replicas::Unit& unit : units_of(spec, placed).units)
    choices = std::min(choices * unit.machines.size(), choices_max + 1);
  return choices;
}

NodeMachines machines_of_nodes(const WorkflowSpec& spec, const Plan& plan,
                               const RoleMachines& placed, std::uint32_t home) {
  Units units = units_of(spec, placed);
  NodeMachines machines;
  std::vector<std::uint16_t> unit_of;
  for (const PlanNode& node : plan.nodes) {
    machines.of.push_back(node.id == entry_node ? home : placed[node.role].front());
    unit_of.push_back(node.id == entry_node ? none : units.of_role[node.role]);
  }
  machines.replicas = Replicas(std::move(units.units), std::move(unit_of));
  return machines;
}

}  // namespace sluice
