// Whether roles may yield: not while the window of an edge that leaves their node is full, or too
// many of the node's frames wait for whoever drives the engines. They wait at their lanes' ears.
//
// Thread: `is_open` and `comes` on lanes, `set`, `came` and `end` by whoever drives, who wakes the
// node's lanes then. Bounds: `coming_max` frames of a node between its lanes and the engines, and
// one for each lane.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "graph/plan.h"

namespace sluice {

class YieldGates {
 public:
  explicit YieldGates(std::size_t nodes) : gates_(nodes) {}

  bool is_open(NodeId node) const {
    const Gate& gate = gates_[node];
    return (!gate.full.load() && gate.coming.load() < coming_max) || ended_.load();
  }
  /// A frame is on its way to whoever drives.
  void comes(NodeId node) { gates_[node].coming.fetch_add(1); }

  void set(NodeId node, bool full) { gates_[node].full.store(full); }
  /// True: there is room for frames again.
  [[nodiscard]] bool came(NodeId node) { return gates_[node].coming.fetch_sub(1) == coming_max; }
  /// The workflow ends: no window opens any more, and what is yielded goes nowhere. Who waits goes
  /// on, a role that needs several steps to end too.
  void end() { ended_.store(true); }

 private:
  static constexpr std::uint32_t coming_max = 16;
  struct Gate {
    std::atomic<bool> full{false};
    std::atomic<std::uint32_t> coming{0};
  };

  std::vector<Gate> gates_;  // by node
  std::atomic<bool> ended_{false};
};

}  // namespace sluice
