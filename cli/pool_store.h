// Commands that look at pages: `sluice pool status|pages|verify` of a folder, and `pool status` and
// `sessions` of a cluster's machines.
#pragma once

#include "cli/commands.h"

namespace sluice::cli {

/// `status`, of a folder or of a cluster, and `sessions`.
void add_pool_status(Command pool, Chosen& chosen);
/// `pages` and `verify`.
void add_pool_store(Command pool, Chosen& chosen);

}  // namespace sluice::cli
