// What one machine's process says to `sluice status`: one JSON object on one line.
//
//     { "machine", "home", "pid", "ready", "ending", "lives", "incarnation", "calls", "given_up",
//       "activations", "dropped", "refused", "repeated", "machines": [ { "name",
//       "state": "not_seen|there|lost", "incarnation", "since_ms", "why", "connected", "heard_ms",
//       "owed_bytes", "window_bytes",
//       "lent": { "in_place", "in_place_bytes", "copied", "in_message", "in_message_bytes", "why",
//       "held_bytes" } }
//       ], "hosts": [ { "name", "roles": [], "state": "waits|begins|serves|refused", "pid",
//       "starts", "activations", "next_ms", "ended", "tried_again",
//       "memory_by": "address_space|cgroup_v1|cgroup_v2" (empty: no limit), "memory_bytes",
//       "memory_peak_bytes" (0: nobody knows) } ],
//       "pages" (of those shared over machines): { PARAMETER: { COUNTER: NUMBER } },
//       "pools" (of each paged_kv): [ as `json_of` of cli/pool_json.h ],
//       "weights" (that processes share, of who brings them together): [ { "what", "bytes" (0: not
//       there yet), "maker" (meanwhile), "holders": [], "waiting": [] } ],
//       "processes": as `launcher_json`,
//       "registry": "joining|current|lapsed|fenced", "registry_why" }
// Until its roles are loaded: only machine, home, pid, ready, ending, hosts and the registry.
// Thread: any.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/cluster.h"
#include "cli/isolate.h"
#include "cli/status_socket.h"
#include "cli/supervisor.h"

namespace sluice::cli {

/// Where process N of the cluster says how it is; of `up`: its socket.
std::string status_path(const std::string& folder, std::uint32_t machine);
std::string up_status_path(const std::string& folder);

/// What `up` says, as JSON text: { "processes": [ { "machine", "pid" (0: it does not run),
/// "starts", "ended": how it ended last, "failing": how often in a row where that is too often } ],
/// "weights": as of a machine }. `weights`: null: there are none in common.
std::string launcher_json(const Supervisor& supervisor, PartExchange* weights);

class MachineStatus {
 public:
  /// From now on it answers. The caller holds the machine's lock. Errors: unavailable.
  static Result<std::unique_ptr<MachineStatus>> show(const Cluster& cluster, std::uint32_t machine);
  /// Borrowed until they are others; null: there is none.
  void set(const Node* node, const Supervisor* supervisor);
  /// From now on it is not ready any more, and not loading.
  void set_ending();
  /// From now on it says how the hosts of its roles are, too.
  void show_hosts(const Hosted& hosted);
  /// As `set`.
  void watch(const RegistryKeeper* registry);

 private:
  MachineStatus(const Cluster& cluster, std::uint32_t machine)
      : cluster_(cluster), machine_(machine) {}
  std::string text() const;

  const Cluster& cluster_;
  const std::uint32_t machine_;
  mutable std::mutex mutex_;
  bool ending_ = false;
  const Node* node_ = nullptr;
  const Supervisor* supervisor_ = nullptr;
  const RegistryKeeper* registry_ = nullptr;
  std::function<std::vector<hosts::HostReport>()> hosts_;
  std::function<std::vector<PartExchange::Report>()> weights_;
  std::optional<StatusSocket> socket_;  // ends before the rest
};

}  // namespace sluice::cli
