// Which fields of each node a workflow file reads: what a scripted node yields, and what a
// misspelt output was to be.
//
// Pure. Thread: any.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "graph/spec.h"

namespace sluice {

using FieldsByNode = std::map<std::string, std::set<std::string, std::less<>>, std::less<>>;

/// By inputs, counts and the workflow's outputs; of `inputs` too.
FieldsByNode fields_read(const WorkflowSpec& spec);

}  // namespace sluice
