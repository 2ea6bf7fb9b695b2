// Whether the checkpoints of a workflow fit its roles and global parameters, and these each other.
//
// Reads configurations, no weights. Requires: each `model:` is the path of a checkpoint, as
// `resolve_models` leaves it; one that is not there was reported.
#pragma once

#include "base/result.h"
#include "graph/diagnostic.h"
#include "graph/spec.h"
#include "roles/catalog.h"

namespace sluice {

void check_models(const WorkflowSpec& spec, const Catalog& catalog, Diagnostics& diagnostics);

/// Whether this process could use the folders of pages that are named (`ssd`): of a workflow that
/// runs on this machine. Changes nothing. Where more is wrong with one, that was reported.
void check_page_folders(const WorkflowSpec& spec, Diagnostics& diagnostics);

/// Whether machines can exchange pages of this parameter, which names a model. Errors:
/// invalid_argument (one is larger than a message holds). What is wrong with the model by itself is
/// none.
Result<void> check_pages_travel(const GlobalParamSpec& param);

}  // namespace sluice
