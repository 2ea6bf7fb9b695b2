// What of a workflow cannot come to pass in a call that leaves inputs out, in words.
#pragma once

#include <string>
#include <vector>

#include "graph/plan.h"

namespace sluice::cli {

/// "without the input 'wrist' the node 'act' cannot run and the output 'actions' does not come";
/// empty: everything may run and come, by another way.
std::string left_out_text(const Plan& plan, const std::vector<std::string>& without);

}  // namespace sluice::cli
