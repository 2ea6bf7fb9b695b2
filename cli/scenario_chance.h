// Which limits of time a scenario's nodes meet in some orders of events and not in others.
//
// A scenario leaves times open: a latency is drawn anew for every seed. So a node's `deadline` that
// lies where its script's activations yield or end, and a `max_age` that its calls' frames can be
// younger than, decide by chance. Pure.
#pragma once

#include <vector>

#include "graph/plan.h"
#include "graph/script.h"
#include "runtime/sim/simulation.h"

namespace sluice::cli {

struct ByChance {
  std::vector<bool> deadline;  // index = NodeId: an activation ends in time, or not
  std::vector<bool> max_age;   // index = NodeId: inputs are too old, or not
};

ByChance find_chance(const Plan& plan, const Script& script);

/// Inputs of the call were dropped at a node whose `max_age` decides by chance.
bool dropped_by_chance(const Plan& plan, const ByChance& chance, const sim::CallReport& call);

}  // namespace sluice::cli
