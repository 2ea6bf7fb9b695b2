// Whether what nodes give each other is what their models read: the inputs that a role reads over
// its checkpoint, pages in the same pool, rows and latents of the same shape.
//
// Reads configurations, no weights. Requires: as `check_models`.
#pragma once

#include "graph/diagnostic.h"
#include "graph/spec.h"
#include "roles/catalog.h"

namespace sluice {

/// What is wrong with a role or its model by itself was said, and is not said again.
void check_wiring(const WorkflowSpec& spec, const Catalog& catalog, Diagnostics& diagnostics);

}  // namespace sluice
