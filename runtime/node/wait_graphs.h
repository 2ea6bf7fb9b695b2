// Which nodes of the workflows that run together stop together: for the windows between machines.
//
// Nodes whose roles share an executor, imported from the same file or not, and nodes whose roles
// share a global parameter: what waits may hold some of it. The same on all machines. Pure.
// Thread: any.
#pragma once

#include <span>
#include <vector>

#include "graph/replica_units.h"
#include "runtime/runner.h"
#include "runtime/windows.h"

namespace sluice {

/// In the order of the graphs. Borrows their plans.
std::vector<WaitGraph> wait_graphs(std::span<const Graph> graphs);

/// Of each edge: together the windows hold what a machine may have to keep of others, or less.
std::size_t window_for(std::span<const Graph> graphs, const std::vector<RoleMachines>& placed,
                       const std::vector<std::uint32_t>& homes);

}  // namespace sluice
