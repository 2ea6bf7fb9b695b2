// Whether the pictures of a request reach a node: one that none reads would be lost in silence.
#pragma once

#include "base/result.h"
#include "cli/given_inputs.h"
#include "graph/plan.h"
#include "graph/spec.h"

namespace sluice::cli {

/// False where all that `request: json` goes to are parse_request nodes whose pictures nobody
/// takes. Roles that we do not know may do with a request what they like.
bool reads_pictures(const WorkflowSpec& spec, const Plan& plan);

/// For a workflow that reads none. Errors: invalid_argument, which names the request's picture.
Result<void> check_no_picture(const CallInputs& inputs);

}  // namespace sluice::cli
