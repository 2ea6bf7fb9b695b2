// Whether the checkpoints of a workflow fit its roles and global parameters, and these each other.
//
// Reads configurations, no weights. Requires: each `model:` is the path of a checkpoint, as
// `resolve_models` leaves it; one that is not there was reported.
#pragma once

#include "graph/diagnostic.h"
#include "graph/spec.h"
#include "roles/catalog.h"

namespace sluice {

void check_models(const WorkflowSpec& spec, const Catalog& catalog, Diagnostics& diagnostics);

}  // namespace sluice
