// What `registry:` of a cluster says: the Redis server that knows which process is which machine,
// and as whom it is asked.
//
// Errors: diagnostics with line and column; see docs/CLUSTER.md for the language.
#pragma once

#include "workflows/cluster.h"
#include "workflows/yaml_tree.h"

namespace sluice {

/// Into the cluster. Requires: its machines are read.
void load_registry(const YamlNode& node, ClusterSpec& spec, Diagnostics& diagnostics);

}  // namespace sluice
