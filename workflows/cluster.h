// A cluster file: which machines there are, and which roles of its workflows run on each.
//
// Errors: diagnostics with line and column; see docs/CLUSTER.md for the language.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/diagnostic.h"
#include "graph/replica_units.h"
#include "graph/spec.h"
#include "graph/together.h"

namespace sluice {

/// Roles of a machine that run in a process of their own beside it.
struct ClusterHost {
  Name name;
  std::vector<Name> roles;
  std::uint64_t memory = 0;  // bytes; 0: no limit
  /// From a role's cancellation to the end of its host; nothing: as docs/HOSTS.md says.
  std::optional<std::chrono::milliseconds> hang_after;
  std::vector<std::uint32_t> cores;  // it runs on these; empty: on any
};
/// Address space: what a process with a few roles takes before they do anything.
inline constexpr std::uint64_t host_memory_least = std::uint64_t{256} << 20U;
inline constexpr std::uint32_t host_cores_max = 1024;

/// How others get a machine's pages: read by themselves, over UCX.
struct PagesByUcx {
  Mark mark;
  /// Network devices that reach nobody but whom the machine trusts with its memory, as the file
  /// says; nothing: processes of this computer only.
  std::optional<Name> devices{};
};

struct ClusterMachine {
  Name name;
  std::optional<Name> address;    // where the others reach it
  std::optional<Name> pages;      // and its pages, where roles on several machines share some
  std::optional<PagesByUcx> ucx;  // by which these come; nothing: over `pages`, or shared memory
  bool pages_in_messages = false;  // over a tcp address too, where others could read them
  std::optional<Mark> preload;     // what others publish is pulled before anybody asks for it
  bool home = false;              // calls begin here
  bool keeper = false;            // the file says that it keeps the list of who is there
  std::vector<Name> roles;
  std::vector<ClusterHost> hosts;

  /// Where `pages` is ipc: others map them, and one more socket stands beside it for that.
  bool maps_pages() const { return pages && !ucx && !pages_in_messages; }
};

struct ClusterSpec {
  std::string file;
  std::vector<Name> workflows;  // relative to the file
  std::vector<ClusterMachine> machines;
  Mark machines_mark;
  std::chrono::milliseconds lease{3000};  // silence after which a machine counts as lost
  std::optional<Name> keys;               // a folder, relative to the file
  std::optional<Name> registry;           // `private`, or a Redis server's address; nothing: none
  std::optional<Name> registry_user;      // as whom it is asked; nothing: without AUTH
  std::optional<Name> registry_password;  // where there is a user: a file, relative to this one
  /// The machine that has the server, where the others reach it through that one; nothing: each
  /// machine reaches it by itself.
  std::optional<Name> registry_at;
  std::optional<Name> registry_forward;  // where there is such a machine: its address for that

  // Numbers; require a file without errors.
  std::vector<std::uint32_t> homes() const;
  /// The machine that keeps the list of who is there: the one that says so, else the first home.
  std::uint32_t keeper() const;
};

struct LoadedCluster {
  ClusterSpec spec;
  Diagnostics diagnostics;
  std::string text;
  /// False: some of it could not be read, and may be what seems to be missing.
  bool all_workflows = false;
  bool all_machines = false;
};

LoadedCluster load_cluster(std::string file_name, std::string_view text);
/// Errors: not_found, exhausted (larger than 1 MiB; not read then).
Result<LoadedCluster> load_cluster_file(const std::string& path);

/// By workflow, then by role: the numbers of its machines, in the file's order. Appends what is
/// wrong: a role that stands nowhere, or twice on one machine, or on several and cannot; roles that
/// must be on the same machines and are not; roles that cannot run; workflows of one name; of a
/// file with errors, what is wrong whatever the rest of it should say. Whole when there is no
/// error. Requires the specs of all of the file's workflows.
using Placement = std::vector<RoleMachines>;
/// Whether two roles on different machines, or one on several, can share a global parameter: empty,
/// or why not.
using WhyNotShared =
    std::function<std::string(const RoleSpec&, const RoleSpec&, const GlobalParamSpec&)>;
/// Why a role runs on no machine at all: empty, or why not.
using WhyNotRun = std::function<std::string(const RoleSpec&)>;
Placement place_roles(LoadedCluster& cluster, std::span<const WorkflowSpec* const> workflows,
                      const WhyNotShared& why_not_shared = {}, const WhyNotRun& why_not_run = {},
                      const WhyInOneProcess& why_in_one = {});

/// True when a YAML file says that it is a cluster: a key `cluster` at its top.
bool is_cluster(std::string_view text);

}  // namespace sluice
