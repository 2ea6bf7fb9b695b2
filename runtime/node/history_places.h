// Whose conversations a workflow's nodes have, by a number that is the same on all machines, and
// who may tell what was said in them.
//
// Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/replica_units.h"
#include "runtime/runner.h"

namespace sluice {

struct HistoryPlaces {
  std::vector<std::string> names;          // by node: of its role
  std::vector<std::uint32_t> roles;        // by node: its role's number
  std::vector<std::vector<bool>> tellers;  // by node, then by machine

  /// Of a role of this name, by which its conversations are told; none: there is no such role.
  std::optional<NodeId> node_of(std::string_view role) const;
  std::optional<NodeId> node_of(std::uint32_t role) const;
};

/// By workflow. A role that workflows include from one file has one number. Machines that have the
/// role tell, and those of roles that share a global parameter with it. `machines`: how many there
/// are.
std::vector<HistoryPlaces> history_places(std::span<const Graph> graphs,
                                          std::span<const RoleMachines> placed,
                                          std::size_t machines);

}  // namespace sluice
