// Finds what is wrong with a spec before anything is planned: names, fields, types, groups.
//
// Reports everything at once, each at the offending key or value, with the nearest right name.
#pragma once

#include "graph/declaration.h"
#include "graph/diagnostic.h"
#include "graph/spec.h"

namespace sluice {

/// What is wrong with an option's value, or nothing.
std::string option_problem(const OptionDeclaration& option, const std::string& value);

void check(const WorkflowSpec& spec, const Declarations& declarations, Diagnostics& diagnostics);

}  // namespace sluice
