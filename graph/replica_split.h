// On which machine each replica of a `balance: broadcast` role runs, where several machines name
// the role.
//
// The replicas are divided in blocks, in the machines' order, as equal as can be: of 3 over 2
// machines the first has 0 and 1, the second has 2. So a workflow means the same however many
// machines there are. The role's nodes have their engines on the first machine, which collects and
// orders what all replicas make. Source: docs/CLUSTER.md, "Each replica, over machines".
#pragma once

#include <cstdint>
#include <vector>

#include "graph/spec.h"

namespace sluice {

/// Whether the replicas of a role that these machines name are divided among them.
inline bool is_split(const RoleSpec& role, const std::vector<std::uint32_t>& machines) {
  return role.balance == Balance::broadcast && machines.size() > 1;
}

/// By replica. Requires: at least as many replicas as machines, and a machine.
inline std::vector<std::uint32_t> split_replicas(std::uint32_t replicas,
                                                 const std::vector<std::uint32_t>& machines) {
  std::vector<std::uint32_t> machine_of;
  const auto count = static_cast<std::uint32_t>(machines.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t of_it = replicas / count + (i < replicas % count ? 1 : 0);
    machine_of.insert(machine_of.end(), of_it, machines[i]);
  }
  return machine_of;
}

}  // namespace sluice
