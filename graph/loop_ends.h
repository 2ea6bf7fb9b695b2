// Scripts for a workflow whose roles nobody described: what leads back around a loop comes once.
//
// Without this, nodes that yield all their fields would go round each loop until the call fails
// at `limits: loop_iterations`.
//
// Pure. Thread: any.
#pragma once

#include "graph/script.h"

namespace sluice {

/// Each loop goes round twice, where a node can leave it: such a node yields all its fields the
/// first time, and from then on those that do not lead back to it. In a loop that no node can
/// leave, the node declared last does so. Requires: `script.nodes` is as `bind_scenario` makes it
/// of an empty spec.
void end_loops(Script& script, const Plan& plan);

}  // namespace sluice
