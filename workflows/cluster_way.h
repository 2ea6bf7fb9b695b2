// What `pages:` of a machine says: where the others reach its pages, and by which way they come.
//
// Errors: diagnostics with line and column; see docs/CLUSTER.md for the language.
#pragma once

#include "workflows/cluster.h"
#include "workflows/yaml_tree.h"

namespace sluice {

/// Into the machine. Requires: its name is read.
void load_pages(const YamlNode& node, ClusterMachine& machine, Diagnostics& diagnostics);

}  // namespace sluice
