// YAML version 1 to a spec, with everything that is wrong with the file at once.
//
// Errors: diagnostics with line and column; see docs/WORKFLOW.md for the language.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/diagnostic.h"
#include "graph/spec.h"

namespace sluice {

struct LoadedWorkflow {
  WorkflowSpec spec;
  Diagnostics diagnostics;
  std::string text;          // the file, for showing lines
};

LoadedWorkflow load_workflow(std::string file_name, std::string_view text);
/// Errors: not_found, exhausted (larger than 1 MiB; not read then).
Result<LoadedWorkflow> load_workflow_file(const std::string& path);

/// The keys that a part of a workflow knows: what the loader checks and the reference lists.
struct KeyTable {
  std::string_view part;     // "workflow", "role", "node", ...
  std::span<const std::string_view> keys;
};
std::span<const KeyTable> workflow_keys();

}  // namespace sluice
