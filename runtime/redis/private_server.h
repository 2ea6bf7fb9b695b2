// A Redis server of a cluster's own: on a unix socket in the cluster's folder, for nobody else.
//
// It keeps nothing on disk, takes at most 256 MiB, and lets its one user do what the registry's
// scripts and the index of pages do, to the cluster's keys. Errors: not_found (no redis-server is
// installed).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

/// The program and its arguments. `cluster`: as in RegistrationSettings.
Result<std::vector<std::string>> private_redis_command(const std::string& folder,
                                                       const std::string& cluster);
std::string private_redis_socket(const std::string& folder);
/// What the registry's user may do: words of an ACL rule. Of a shared server's user, too.
std::vector<std::string> registry_acl(const std::string& cluster);
/// And beside that, where machines share pages.
std::vector<std::string> page_index_acl();

}  // namespace sluice
