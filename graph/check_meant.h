// What a workflow may say and hardly means.
#pragma once

#include "graph/diagnostic.h"
#include "graph/spec.h"

namespace sluice {

/// A warning for each input group that stands twice at a node, each node's deadline that the call's
/// cuts off, and each global parameter that no role lists. Requires: the workflow has no errors.
void check_meant(const WorkflowSpec& spec, Diagnostics& diagnostics);

}  // namespace sluice
