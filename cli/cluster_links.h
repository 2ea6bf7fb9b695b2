// What a cluster file says of links, looked at before a machine begins: addresses that links can
// take, and the keys by which machines know each other.
//
// Of keys, what each machine needs of all is looked at: the public ones. The secret one is looked
// at by whoever is that machine.
#pragma once

#include "workflows/cluster.h"

namespace sluice::cli {

/// Appends what is wrong.
void check_links(LoadedCluster& cluster);

/// The folder of keys as seen from here; empty where the file names none.
std::string keys_folder(const ClusterSpec& spec);

}  // namespace sluice::cli
