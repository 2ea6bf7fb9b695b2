// The commands under `pool` that look at a folder of pages.
#pragma once

#include "cli/commands.h"

namespace sluice::cli {

void add_pool_store(CLI::App& pool, Chosen& chosen);

}  // namespace sluice::cli
