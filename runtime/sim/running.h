// What runs in a simulation: activations, and the replicas that they wait for. Private to
// runtime/sim.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "graph/effect.h"
#include "runtime/sim/oracle.h"

namespace sluice::sim {

/// An activation that has started and not ended.
struct Running {
  bool used = false;
  bool serving = false;  // its replica works on it
  bool hangs = false;
  bool stopped = false;   // by a full window
  bool told = false;      // cancelled
  bool disowned = false;  // and over for its engine
  std::uint32_t generation = 0;
  StartActivation start;
  ActivationNumber fact = 0;
  std::string identity;
  const std::vector<std::uint64_t>* yields = nullptr;
  std::size_t next_yield = 0;
  std::chrono::nanoseconds pace{};
  std::size_t span = 0;
};

/// One replica of a role, which may serve one activation at a time.
struct Replica {
  bool busy = false;
  std::deque<std::uint32_t> waiting;
};

}  // namespace sluice::sim
