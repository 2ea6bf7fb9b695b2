// Nodes that nothing can ever run, because each waits for another of them.
#pragma once

#include "graph/diagnostic.h"
#include "graph/spec.h"

namespace sluice {

/// One error for each circle of nodes that wait for one another: the rest follows from it. A source
/// that is not there counts as one that comes; that it is not is said where it stands.
void check_reach(const WorkflowSpec& spec, Diagnostics& diagnostics);

}  // namespace sluice
