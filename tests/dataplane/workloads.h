// Generated workloads for eviction policies: from one seed, the same requests everywhere.
#pragma once

#include <span>

#include "dataplane/trace.h"

namespace sluice {

struct Workload {
  const char* name;
  std::vector<TraceRequest> (*make)(std::uint64_t seed);
};

/// Chats with think times, agents under shared system prompts, scans, loops, shifts of popularity.
std::span<const Workload> workloads();

}  // namespace sluice
