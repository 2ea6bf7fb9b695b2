// What `registry:` of a cluster says: the Redis server that knows which process is which machine,
// as whom it is asked, and which machine forwards it to the others.
//
// Errors: diagnostics with line and column; see docs/CLUSTER.md for the language.
#pragma once

#include "workflows/cluster.h"
#include "workflows/yaml_tree.h"

namespace sluice {

/// Into the cluster. Requires: its machines are read; `all_machines`: without a mistake.
void load_registry(const YamlNode& node, bool all_machines, ClusterSpec& spec,
                   Diagnostics& diagnostics);

}  // namespace sluice
