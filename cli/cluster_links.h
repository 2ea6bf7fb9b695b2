// What a cluster file says of links, looked at before a machine begins: addresses that links can
// take, the keys by which machines know each other, and the file with the registry's password.
//
// Of keys, what each machine needs of all is looked at: the public ones. The secret one is looked
// at by whoever is that machine.
#pragma once

#include "workflows/cluster.h"

namespace sluice::cli {

/// Appends what is wrong.
void check_links(LoadedCluster& cluster);

/// The file of the registry's password as seen from here. Requires that the cluster names one.
std::string registry_password_file(const ClusterSpec& spec);
/// The folder of keys as seen from here; empty where the file names none.
std::string keys_folder(const ClusterSpec& spec);

}  // namespace sluice::cli
