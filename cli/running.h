// The processes of a cluster that run on this computer as this user, as their sockets and locks
// say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/status_socket.h"
#include "workflows/cluster.h"

namespace sluice::cli {

/// A cluster file's machines, and where its processes meet; workflows may be wrong or gone.
struct ClusterPlace {
  ClusterSpec spec;  // without machines where the file cannot be read: its path says the folder
  std::string folder;

  bool is_read() const { return !spec.machines.empty(); }
};

/// "machine 'eyes'", "`sluice up`".
std::string people_name(const std::string& machine);

/// Says what is wrong with the file, if it cannot be read as a cluster file; its processes may run
/// all the same.
ClusterPlace read_cluster_place(const std::string& file);

struct RunningProcess {
  std::string machine;  // what it took itself for when it began; empty: `sluice up`
  pid_t pid = 0;
  std::string lock;  // the file that it holds while it lives
  std::optional<StatusReader> reader;
  std::string silent;  // where there is no reader: why
};

/// The process as a descriptor, which stays this process's. Errors: not_found (it is gone),
/// unavailable (not allowed).
Result<int> open_process(const RunningProcess& process);

/// In the order in which they are to end: the homes, `up`, the other machines.
/// One that cannot be asked is in the list all the same. Errors: not_found (none runs), unavailable
/// (the folder is another user's, or is closed).
Result<std::vector<RunningProcess>> find_running(const ClusterPlace& place);

/// Of processes that died: files that nobody holds. How many.
std::size_t remove_leftovers(const ClusterPlace& place);
/// Locks that are held, by machines (or `up`) that do not listen.
std::vector<std::string> held_locks(const ClusterPlace& place);

}  // namespace sluice::cli
