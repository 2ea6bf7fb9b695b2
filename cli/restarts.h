// For which machines of a cluster the calls of a home wait: those of this computer that died and
// that somebody starts again, and those that a life of the home has not met yet.
//
// Thread: one. Owns: a descriptor for each machine's process that it knows.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster.h"
#include "cli/restart_hold.h"
#include "cli/supervisor.h"

namespace sluice::cli {

/// "it keeps failing: 5 ends in a row, each within 10 s; it is tried again every 60 s".
std::string failing_words(unsigned ends);

/// What starts the cluster's machines again here, as it says: this process's supervisor, or `up`.
/// Nothing: there is none. An empty list: it does not answer.
std::optional<std::vector<Supervisor::Status>> supervised(const Cluster& cluster,
                                                          const Supervisor* own);

class Restarts {
 public:
  /// `self`: this machine. Borrows all. `own` may be null.
  Restarts(const Cluster& cluster, std::uint32_t self, Node& node, const Supervisor* own,
           std::chrono::milliseconds patience);
  ~Restarts();
  Restarts(const Restarts&) = delete;
  Restarts& operator=(const Restarts&) = delete;

  /// Words on those that calls wait for now; empty: none.
  std::string waits_for();

 private:
  void look(const NodeStatus& status, RestartHold::Time now);
  bool is_restarted(const std::string& machine, RestartHold::Time now);
  /// It is not there, and each of its roles is on a machine that is. Of the keeper: never.
  bool has_stand_ins(const NodeStatus& status, std::size_t machine) const;
  /// It is there, or known to be lost: not so in the first moments of a life.
  bool has_met(const NodeStatus& status, std::size_t machine) const;

  const Cluster& cluster_;
  const std::uint32_t self_;
  Node& node_;
  const Supervisor* const own_;
  RestartHold hold_;
  std::vector<int> processes_;                           // by machine; -1: not known
  std::optional<std::vector<Supervisor::Status>> said_;  // by whoever starts them
  RestartHold::Time said_at_{};
};

}  // namespace sluice::cli
