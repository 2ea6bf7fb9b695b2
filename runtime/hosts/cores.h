// Cores by their numbers: which a process may use, and a process that is bound to some.
//
// Thread: any; they are of the thread that asks. Errors: invalid_argument (a core that it may not
// use). Source: sched_setaffinity(2).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::hosts {

std::vector<std::uint32_t> usable_cores();
/// As `taskset` writes them: 0-3,6.
std::string cores_text(std::span<const std::uint32_t> cores);
/// Each of them may be used; the error names the first that may not, and those that may.
Result<void> check_cores(std::span<const std::uint32_t> cores);
/// From now on this thread, and whatever it starts, runs on them; safe between fork and exec.
/// Requires: each below 1024. False: none of them is there.
bool bind_to(std::span<const std::uint32_t> cores);

}  // namespace sluice::hosts
