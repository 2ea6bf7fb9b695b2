// Starts a role host: a process with one socket, its own group, no input, and the standard error of
// this one for all that it says.
//
// Thread: one that lives as long as the process may; the kernel ends the process with it. Errors:
// exhausted, not_found, invalid_argument (a core that is not there).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/hosts/channel.h"

namespace sluice::hosts {

struct Spawned {
  pid_t pid = -1;
  OwnedFile handle;       // readable when it has died
  OwnedFile control;      // this side of its socket
  int not_in_cgroup = 0;  // errno: it could not enter it, and has that much address space
};

/// `memory`: bytes; 0: no limit. `cores`: it runs on these; empty: on those of the thread.
/// `cgroup`: the entrance of one that limits its memory; below 0: its address space is limited.
Result<Spawned> spawn(std::vector<std::string> command, std::uint64_t memory,
                      const std::vector<std::uint32_t>& cores, int cgroup = -1);

}  // namespace sluice::hosts
