// A cluster file with its workflows, and what a machine of it is made from.
//
// Without addresses the machines are processes of this computer, which meet at sockets in a folder
// that only this user reaches; the folder is the same for all who name the same file.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/compiled.h"
#include "cli/lock_file.h"
#include "runtime/node/node.h"
#include "runtime/redis/registry_keeper.h"
#include "runtime/zmq/zmq_transport.h"
#include "workflows/cluster.h"

namespace sluice::cli {

struct Cluster {
  LoadedCluster loaded;  // with all diagnostics, sorted
  std::deque<Compiled> workflows;
  Placement placed;
  std::array<std::byte, 32> digest{};  // what all machines must agree on
  std::string folder;                  // of this cluster's sockets and locks

  const ClusterSpec& spec() const { return loaded.spec; }
  bool ok() const;
  std::string address_of(std::uint32_t machine) const;
};

/// Errors: the cluster file cannot be read, or is something else.
Result<Cluster> load_cluster_with_workflows(const std::string& path, const WorkflowOptions& options,
                                            const Catalog& catalog);
/// Prints errors (and warnings) of all its files to standard error.
void print_diagnostics(const Cluster& cluster);

/// Where the processes of this file meet: the same path for all who name the same file.
std::string cluster_folder(const std::string& file);

/// Makes the folder, mode 0700, or checks that it is this user's alone. Errors: unavailable.
Result<void> make_folder(const Cluster& cluster);
/// In a cluster's folder: held by the process that is this machine.
std::string lock_path(const std::string& folder, std::uint32_t machine);
/// Only one process at a time is this machine. Errors: unavailable.
Result<LockFile> lock_machine(const Cluster& cluster, std::uint32_t machine);

/// What a machine's transport is made from. Errors: keys that are not there.
Result<ZmqOptions> transport_options(const Cluster& cluster, Origin self,
                                     const std::function<void(const LinkNotice&)>& notice);

/// Removes the folder where nothing is in it.
void leave_cluster_folder(const std::string& folder);
/// What a machine without an address has made in the cluster's folder.
void remove_sockets_of(const std::string& folder, std::uint32_t machine);
/// Behind the machine's node: its sockets too. The lock is let go last.
void leave_folder(const Cluster& cluster, std::uint32_t machine, std::optional<LockFile> lock);

/// Meets the others. `notice` takes a line about machines. `registry` holds this machine's entry
/// and gives the incarnation; null: there is none. Borrows the cluster, the catalog and the
/// registry. Errors: a role that cannot be made, an address that cannot be bound, keys that are not
/// there.
Result<std::unique_ptr<Node>> make_node(const Cluster& cluster, std::uint32_t machine,
                                        const Catalog& catalog, RunnerOptions options,
                                        std::function<void(const LinkNotice&)> notice,
                                        RegistryKeeper* registry);

}  // namespace sluice::cli
