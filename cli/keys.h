// The command `sluice keys`: the key pairs of a cluster's machines.
#pragma once

#include "cli/commands.h"

namespace sluice::cli {

void add_keys(Command app, Chosen& chosen);

}  // namespace sluice::cli
