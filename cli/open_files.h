// How many files this process may have open: as many as it is allowed to ask for.
//
// A machine of a cluster needs three to four for each other machine, and shells give 1,024.
// Thread: any, before others open files.
#pragma once

#include <sys/resource.h>

namespace sluice::cli {

/// Does nothing where the limit cannot be changed: opening a file says so then.
inline void allow_many_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace sluice::cli
