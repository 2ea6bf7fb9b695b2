// Which nodes a traced call did not run, and why not: what `sluice why` says below the times.
//
// Works on what came in the whole call, so it tells a field that never came from fields that came
// and never met. Thread: any. Cost: linear in the trace, and in the graph for each call.
#pragma once

#include <string>
#include <vector>

#include "graph/plan.h"
#include "runtime/trace.h"

namespace sluice::cli {

struct SkippedNode {
  std::string node;
  std::string why;
};

/// Of each call that ended, in the file's order. Nothing where activations were left out of the
/// trace: then it does not know what ran. `elsewhere`: nodes of which it holds nothing, by name;
/// what they made may have come or not, and it says so.
std::vector<std::vector<SkippedNode>> skipped_nodes(const Plan& plan, const Trace& trace,
                                                    const std::vector<std::string>& elsewhere);

}  // namespace sluice::cli
