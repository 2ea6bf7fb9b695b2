// What did not come in a call that ended well, and why: in words, for its caller.
//
// A join is named when it got some of its fields and not the others, and its node never ran in the
// call, by no group and for no yield. Where it ran at all, a field that did not come was a branch
// not taken. Why something did not come is followed back, through nodes that did not run, to those
// that ran and yielded nothing of it and to inputs that were not given. A node that yielded
// something else, which led to another such end, took a branch: it is not named.
// Thread: one loop.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/frame.h"
#include "graph/plan.h"
#include "graph/warnings.h"

namespace sluice {

/// What one call's home knows of what does not come. Bounds: an entry for each group of a node.
class Untold {
 public:
  /// What a node told about one of its groups, or (`group` 0) about itself.
  struct Told {
    NodeId node = 0;
    std::uint16_t group = 0;
    bool ran = false;                         // a join's node, after all
    bool few = false;                         // a count
    bool stopped = false;                     // inputs were dropped, or a failure was skipped
    bool silent = false;                      // it ran, ...
    bool lacks = false;                       // a join, or a count: fields did not come
    std::uint64_t left_out = 0;               // ... and never yielded these outputs
    std::uint64_t some = 0;                   // fields that one bucket lacked or another
    std::uint64_t every = ~std::uint64_t{0};  // fields that all of them lacked
  };

  std::uint64_t given = 0;  // the call's inputs, as bits

  void add(const Lost& lost);
  /// Appends a line for each join that never ran, and one when the call brought no output.
  void say(const Plan& plan, bool no_output, Warnings& warnings) const;
  /// Sorted, in place of what `nodes` has: each remembers something of the call, to its end.
  void silent_nodes(std::vector<NodeId>& nodes) const;
  /// Null: nothing was told.
  const Told* find(NodeId node, std::uint16_t group) const;
  void clear();

 private:
  std::vector<Told> told_;  // by node and group
};

}  // namespace sluice
