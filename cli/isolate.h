// Roles in hosts of their own: `--isolate`, `hosts:` of a cluster, and the command that is a host.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cli/cluster.h"
#include "cli/commands.h"
#include "engine/checkpoint/part_exchange.h"
#include "runtime/hosts/hosted_catalog.h"

namespace sluice::cli {

/// A catalog with hosts, and what of checkpoints they share.
struct Hosted : hosts::HostedCatalog {
  std::function<std::vector<PartExchange::Report>()> weights;  // empty: nothing is shared
};

/// The catalog with these hosts' roles in processes of this program; `plugins` are its folders.
/// `machine`: whose lines about hosts stand among those of others; empty: nobody else's.
/// `launcher`: a socket by which this process and its hosts share weights with those that the same
/// launcher has started; none: among themselves. Borrows the catalog as long as the result is used.
Hosted with_hosts(const Catalog& catalog, std::span<const WorkflowSpec* const> workflows,
                  const std::vector<hosts::HostGroup>& groups,
                  const std::vector<std::string>& plugins, const std::string& machine,
                  OwnedFile launcher = OwnedFile());

/// What `--isolate` and its like say.
struct IsolateOptions {
  std::vector<std::string> roles;  // or `all`; none: no hosts
  std::uint64_t memory = 0;        // bytes, of each host
};
void add_isolate_options(Command command, IsolateOptions& options);
/// As `with_hosts`. Errors: roles that are not there, or cannot be apart; begin with `--isolate`.
Result<Hosted> isolated(const IsolateOptions& options, const Catalog& catalog,
                        const WorkflowSpec& workflow, const std::vector<std::string>& plugins);

/// The same for the hosts that a cluster file gives a machine.
Hosted with_hosts_of(const Cluster& cluster, std::uint32_t machine, const Catalog& catalog,
                     const std::vector<std::string>& plugins, OwnedFile launcher = OwnedFile());

/// Of who starts machines of a cluster: by this they, and their hosts, have the weights in memory
/// once of each model of which two of these processes have roles.
struct SharedWeights {
  std::shared_ptr<PartExchange> exchange;  // null: there is no such model
  std::set<std::uint32_t> machines;        // that have one
};
/// Among all machines but the homes, and this process, where it is one.
SharedWeights shared_weights_of(const Cluster& cluster, std::optional<std::uint32_t> self = {});
/// A socket for a process that is the machine; none: it shares with nobody. Errors: unavailable.
Result<OwnedFile> join(const SharedWeights& weights, const Cluster& cluster, std::uint32_t machine);

/// For who starts the cluster's machines, before it does, and to be kept while they run: with
/// version 2 of cgroups it is in one of its own from then on, and so are they, and their hosts'
/// cgroups are made beside it. Null: no host has a limit, or there are no cgroups (of which the
/// machines tell).
std::shared_ptr<hosts::Cgroups> cgroups_of(const Cluster& cluster);

/// Each core that the machine's hosts are bound to is one of this computer. Errors:
/// invalid_argument, with machine, host and core.
Result<void> check_cores_of(const Cluster& cluster, std::uint32_t machine);

}  // namespace sluice::cli
