// The machine's time as the engines count it.
//
// Thread: any.
#pragma once

#include <chrono>

#include "graph/frame.h"

namespace sluice {

inline Instant steady_now() {
  return std::chrono::duration_cast<Instant>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace sluice
