// What `hosts:` of a machine says: roles in processes of their own, and what each such process may
// take.
//
// Errors: diagnostics with line and column; see docs/HOSTS.md for the language.
#pragma once

#include "workflows/cluster.h"
#include "workflows/yaml_tree.h"

namespace sluice {

/// Into the machine's hosts. Requires: its name and its roles are read.
void load_hosts(const YamlNode& node, ClusterMachine& machine, Diagnostics& diagnostics);

}  // namespace sluice
