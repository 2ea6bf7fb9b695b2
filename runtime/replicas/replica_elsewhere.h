// A role that stands for a replica on another machine: its lane and its engine know nothing of
// that.
//
// It takes what its lane gives it, has it run there, and yields here what comes of it, one frame of
// each activation a step, so windows and cancelled calls stop it as they stop any role. Inputs go
// when they fit into `replica_window` beside those that the replica has. Thread and errors as for
// any role; an activation whose machine is lost ends with an error that says so.
#pragma once

#include <cstdint>
#include <memory>

#include "roles/role.h"
#include "runtime/replicas/desk.h"

namespace sluice {

/// Requires: it runs on a lane, for nodes of a workflow that the desk knows by then.
std::unique_ptr<SteppedRole> make_replica_elsewhere(std::shared_ptr<ReplicaDesk> desk,
                                                    std::uint32_t machine);

}  // namespace sluice
