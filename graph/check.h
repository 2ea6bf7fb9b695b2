// Finds what is wrong with a spec before anything is planned: names, fields, types, groups.
//
// Reports everything at once, each at the offending key or value, with the nearest right name.
#pragma once

#include "graph/declaration.h"
#include "graph/diagnostic.h"
#include "graph/spec.h"

namespace sluice {

void check(const WorkflowSpec& spec, const Declarations& declarations, Diagnostics& diagnostics);

}  // namespace sluice
