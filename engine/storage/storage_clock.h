// The clock of what waits for disks and machines. Units: nanoseconds of a clock that only rises.
// Thread: any.
#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

inline std::int64_t storage_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace sluice
