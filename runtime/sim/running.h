// What runs in a simulation: activations, and the replicas that they wait for. Private to
// runtime/sim.
#pragma once

#include <algorithm>
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

/// By machine, node and the engine's index of an activation: which of those that run it is.
class ActivationSlots {
 public:
  ActivationSlots(std::size_t nodes, std::uint32_t machines)
      : nodes_(nodes), rows_(nodes * machines) {}
  std::uint32_t& of(const StartActivation& start, std::uint32_t machine) {
    std::vector<std::uint32_t>& row = rows_[nodes_ * machine + start.node];
    if (row.size() <= start.activation.index) row.resize(start.activation.index + 1);
    return row[start.activation.index];
  }
  /// Null: none with this index has started.
  const std::uint32_t* find(const CancelActivation& cancel, std::uint32_t machine) const {
    const std::vector<std::uint32_t>& row = rows_[nodes_ * machine + cancel.node];
    return cancel.activation.index < row.size() ? &row[cancel.activation.index] : nullptr;
  }

 private:
  const std::size_t nodes_;
  std::vector<std::vector<std::uint32_t>> rows_;
};

/// One replica of a role, which may serve one activation at a time.
struct Replica {
  bool busy = false;
  std::deque<std::uint32_t> waiting;
};

/// Those of all executors on all machines.
class ReplicaRows {
 public:
  ReplicaRows(const Plan& plan, std::uint32_t machines) : machines_(machines) {
    for (const PlanNode& node : plan.nodes) {
      if (node.id == entry_node) continue;
      if (sizes_.size() <= node.executor) sizes_.resize(node.executor + std::size_t{1});
      sizes_[node.executor] = std::max(sizes_[node.executor], node.replicas);
    }
    rows_.resize(sizes_.size() * machines);
  }
  Replica& of(std::uint16_t executor, std::uint32_t machine, std::uint32_t replica) {
    std::vector<Replica>& row = rows_[std::size_t{executor} * machines_ + machine];
    if (row.empty()) row.resize(sizes_[executor]);
    return row[replica % row.size()];
  }
  /// Nothing runs there, or waits.
  void clear(std::uint32_t machine) {
    for (std::size_t at = machine; at < rows_.size(); at += machines_) rows_[at].clear();
  }

 private:
  const std::uint32_t machines_;
  std::vector<std::uint32_t> sizes_;        // by executor
  std::vector<std::vector<Replica>> rows_;  // by executor and machine
};

}  // namespace sluice::sim
