// What one call of `sluice run` brings: its `--input`s, and the `request` that --prompt, --image
// and their like make.
//
// Errors: the option, the file, and what the input needs.
#pragma once

#include "base/result.h"
#include "cli/given_inputs.h"
#include "cli/run_options.h"
#include "graph/plan.h"

namespace sluice::cli {

/// Whole: what the workflow reads is given, or said to be left out.
Result<CallInputs> inputs_of(const RunOptions& options, const Plan& plan);

}  // namespace sluice::cli
