// Roles in hosts of their own: `--isolate`, `hosts:` of a cluster, and the command that is a host.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/cluster.h"
#include "runtime/hosts/hosted_catalog.h"

namespace sluice::cli {

/// The catalog with these hosts' roles in processes of this program; `plugins` are its folders.
/// Borrows the catalog as long as the result is used.
Catalog with_hosts(const Catalog& catalog, std::span<const WorkflowSpec* const> workflows,
                   const std::vector<hosts::HostGroup>& groups,
                   const std::vector<std::string>& plugins);

/// The same for the hosts that a cluster file gives a machine.
Catalog with_hosts_of(const Cluster& cluster, std::uint32_t machine, const Catalog& catalog,
                      const std::vector<std::string>& plugins);

}  // namespace sluice::cli
