// A home of a cluster, for `sluice run --cluster`: waits for the other machines, and, as the only
// home, starts them where nobody has.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster.h"
#include "cli/isolate.h"
#include "cli/machine_status.h"
#include "cli/registry_entry.h"
#include "cli/restarts.h"
#include "cli/supervisor.h"

namespace sluice::cli {

/// The private registry, if the file asks for one, and all machines but the homes, as `sluice node`
/// commands, which share weights so. Borrows the cluster. Errors: no Redis server is installed.
Result<std::vector<Supervisor::Machine>> processes_of(const Cluster& cluster,
                                                      const WorkflowOptions& options,
                                                      const std::vector<std::string>& plugins,
                                                      const SharedWeights& weights, bool quiet);
/// Only one process at a time starts them. Errors: unavailable.
Result<LockFile> lock_processes(const Cluster& cluster);
/// What processes that were killed have left in the cluster's folder, and the folder.
void remove_sockets(const Cluster& cluster);

class ClusterHome {
 public:
  /// Borrows all. `told_to_end` is asked while others are waited for. Errors: who did not join
  /// within `patience`, what `make_node` says, cancelled (told to end).
  static Result<std::unique_ptr<ClusterHome>> begin(
      const Cluster& cluster, std::uint32_t self, const Catalog& catalog,
      const WorkflowOptions& options, const std::vector<std::string>& plugins, RunnerOptions runner,
      std::chrono::milliseconds patience, const std::function<bool()>& told_to_end);
  /// Ends the machines that it has started, where this process cannot wait for its own end.
  void end_processes();
  ~ClusterHome();
  /// Calls begin while the registry confirms this machine, or always where there is none.
  Runner& runner(std::size_t workflow);
  /// See `Restarts::waits_for`: new calls wait for machines as long as it does at the start.
  /// Thread: one.
  std::string waits_for() { return restarts_->waits_for(); }

 private:
  using ShowProgress = std::function<void(std::string_view)>;

  Result<void> start_processes(const WorkflowOptions& options,
                               const std::vector<std::string>& plugins);
  void prepare_hosts(const Catalog& catalog, const std::vector<std::string>& plugins);
  Result<void> wait_for_members(std::chrono::milliseconds patience,
                                const std::function<bool()>& told_to_end,
                                const ShowProgress& progress);
  void show_status();
  ClusterHome(const Cluster& cluster, std::uint32_t self) : cluster_(cluster), self_(self) {}

  const Cluster& cluster_;
  const std::uint32_t self_;
  std::atomic<bool> quiet_{true};  // machines come and go as they should
  std::optional<LockFile> machine_lock_, processes_lock_;
  std::shared_ptr<hosts::Cgroups> cgroups_;  // for hosts of those that it starts
  SharedWeights weights_;                    // with those that it starts
  std::optional<Supervisor> supervisor_;
  std::unique_ptr<StreamForwarder> forwarder_;  // where this machine forwards the registry
  std::unique_ptr<RegistryKeeper> registry_;
  Hosted hosted_;  // the roles of this machine's hosts are elsewhere
  std::unique_ptr<Node> node_;
  std::unique_ptr<Restarts> restarts_;
  std::vector<std::unique_ptr<Runner>> gates_;  // by workflow; empty where there is no registry
  std::unique_ptr<MachineStatus> status_;
};

}  // namespace sluice::cli
