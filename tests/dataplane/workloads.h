// Generated workloads for eviction policies: from one seed, the same requests everywhere.
#pragma once

#include <span>

#include "dataplane/trace.h"

namespace sluice {

struct Workload {
  const char* name;
  std::vector<TraceRequest> (*make)(std::uint64_t seed);
};

/// Services whose every parameter is drawn by the seed (`services.cpp`).
std::vector<TraceRequest> chat_service(std::uint64_t seed);
std::vector<TraceRequest> tool_service(std::uint64_t seed);
std::vector<TraceRequest> document_service(std::uint64_t seed);

/// Chats with think times, agents under shared system prompts, scans, loops, shifts of popularity,
/// noise, and the services.
std::span<const Workload> workloads();

}  // namespace sluice
