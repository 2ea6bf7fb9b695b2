// YAML version 1 to a spec, with everything that is wrong with the file at once.
//
// Errors: diagnostics with line and column; see docs/WORKFLOW.md for the language.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/declaration.h"
#include "graph/diagnostic.h"
#include "graph/included.h"
#include "graph/plan.h"
#include "graph/spec.h"
#include "workflows/override.h"

namespace sluice {

struct LoadedWorkflow {
  WorkflowSpec spec;
  Diagnostics diagnostics;
  std::string text;      // the file, for showing lines
  bool readable = true;  // false: the spec says nothing, so nothing more can be said of it
  std::vector<Override> overrides;  // what was given beside the file
  IncludedFiles included;           // where marks of `spec` and `diagnostics` may be, too
};

LoadedWorkflow load_workflow(std::string file_name, std::string_view text);
/// With the roles and global parameters of the files that it includes, and what is wrong with these
/// files, at its place there. `overrides` stand in place
/// of what the files say; one that fits none of them is an error among the diagnostics.
/// Errors: not_found, exhausted (larger than 1 MiB; not read then).
Result<LoadedWorkflow> load_workflow_file(const std::string& path,
                                          std::vector<Override> overrides = {});

/// Says `--set PATH=VALUE` where the value of an override is what is wrong. Who adds diagnostics
/// to those of a loaded workflow calls it.
void name_overrides(LoadedWorkflow& loaded);

/// Adds what is wrong with the names, the types and the graph, and sorts all by place. The plan is
/// whole when there is no error.
Plan plan_workflow(LoadedWorkflow& loaded, const Declarations& declarations);

/// The most of each that a workflow may have.
struct WorkflowBounds {
  static constexpr std::size_t nodes = 2'000;
  static constexpr std::size_t roles = 1'000;
  static constexpr std::size_t global_params = 1'000;
  static constexpr std::size_t inputs = 1'000;
  static constexpr std::size_t outputs = 1'000;
  static constexpr std::size_t groups = 1'000;  // of a node
  static constexpr std::size_t fields = 60;     // of a group
  static constexpr std::size_t includes = 100;
  static constexpr std::size_t sources = 20'000;  // in all
};

/// The keys that a part of a workflow knows: what the loader checks and the reference lists.
struct KnownKeys {
  std::string_view part;  // "workflow", "role", "node", ...
  std::span<const std::string_view> keys;
};
std::span<const KnownKeys> workflow_keys();

}  // namespace sluice
