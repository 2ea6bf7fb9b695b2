#include "runtime/node/history_places.h"

#include <algorithm>
#include <map>

#include "runtime/inproc/role_host.h"

namespace sluice {

namespace {

std::optional<NodeId> first_of(const auto& all, const auto& one) {
  // The entry, which comes first, has no role.
  for (std::size_t node = entry_node + 1U; node < all.size(); ++node)
    if (all[node] == one) return static_cast<NodeId>(node);
  return {};
}

bool share_any(const RoleSpec& one, const RoleSpec& other) {
  return std::ranges::any_of(one.global_params, [&](const Name& name) {
    return std::ranges::any_of(other.global_params,
                               [&](const Name& theirs) { return theirs.text == name.text; });
  });
}

}  // namespace

std::optional<NodeId> HistoryPlaces::node_of(std::string_view role) const {
  return first_of(names, role);
}

std::optional<NodeId> HistoryPlaces::node_of(std::uint32_t role) const {
  return first_of(roles, role);
}

std::vector<HistoryPlaces> history_places(std::span<const Graph> graphs,
                                          std::span<const RoleMachines> placed,
                                          std::size_t machines) {
  std::vector<HistoryPlaces> all;
  std::map<std::string, std::uint32_t> numbers;
  for (std::size_t workflow = 0; workflow < graphs.size(); ++workflow) {
    const std::vector<RoleSpec>& roles = graphs[workflow].spec->roles;
    HistoryPlaces& places = all.emplace_back();
    for (const PlanNode& node : graphs[workflow].plan->nodes) {
      std::vector<bool>& tellers = places.tellers.emplace_back(machines);
      std::string& name = places.names.emplace_back();
      std::uint32_t& number = places.roles.emplace_back();
      if (node.id == entry_node) continue;
      const RoleSpec& role = roles[node.role];
      name = role.name.text;
      const std::string identity = identity_of(workflow + 1, name, role.included_from);
      number =
          numbers.try_emplace(identity, static_cast<std::uint32_t>(numbers.size())).first->second;
      for (std::size_t i = 0; i < roles.size(); ++i)
        if (i == node.role || share_any(role, roles[i]))
          for (const std::uint32_t machine : placed[workflow][i]) tellers[machine] = true;
    }
  }
  return all;
}

}  // namespace sluice
