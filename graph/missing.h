// What did not come in a call that ended well: in words, for its caller.
//
// A join is named when it got some of its fields and not the others, and its node never ran in the
// call, by no group and for no yield. Where it ran at all, a field that did not come was a branch
// not taken. Thread: any.
#pragma once

#include <vector>

#include "graph/frame.h"
#include "graph/plan.h"
#include "graph/warnings.h"

namespace sluice {

/// Appends a line for each such join, and one when the call brought no output.
void add_missing(const Plan& plan, const std::vector<Lost>& lost, bool no_output,
                 Warnings& warnings);

}  // namespace sluice
