// Dominators of a small directed graph: which nodes every path from the entry must pass.
//
// Source: Cooper, Harvey, Kennedy, "A simple, fast dominance algorithm" (2001). The nearest common
// dominator replaces the paper's reverse search (omni-flow, section 3.3, Diamond Roots), which may
// pick an ancestor that some path avoids.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

class Dominators {
 public:
  using Node = std::uint16_t;
  static constexpr Node unreachable = 0xffff;

  /// `successors[n]` lists where n's edges go. Node 0 is the entry.
  explicit Dominators(const std::vector<std::vector<Node>>& successors);

  bool reachable(Node node) const { return immediate_[node] != unreachable; }
  /// The immediate dominator; the entry for itself; `unreachable` where no path leads.
  Node immediate(Node node) const { return immediate_[node]; }
  Node nearest_common(Node a, Node b) const;

 private:
  std::vector<Node> immediate_;
  std::vector<std::uint32_t> order_;  // position in reverse postorder
};

}  // namespace sluice
