// Where a workflow's nodes live, from where its roles do.
//
// Roles that share memory or pages, and are on the same several machines, make one unit: a call
// uses one machine of it. Where a role of a unit says `balance: session` or `cache`, so does the
// unit. The nodes of a role whose replicas are divided (graph/replica_split.h) are on its first
// machine in every call.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/plan.h"
#include "graph/replicas.h"
#include "graph/spec.h"

namespace sluice {

/// By role: its machines, one or more, each once.
using RoleMachines = std::vector<std::vector<std::uint32_t>>;

/// In how many ways a call's roles can be spread; no more than one above `choices_max` is told.
std::uint64_t choices_of(const WorkflowSpec& spec, const RoleMachines& placed);
/// Requires: that is at most `choices_max`. The entry is at `home`.
NodeMachines machines_of_nodes(const WorkflowSpec& spec, const Plan& plan,
                               const RoleMachines& placed, std::uint32_t home);

}  // namespace sluice
