// A workflow file, loaded, checked and compiled in one go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/workflow_options.h"
#include "graph/plan.h"
#include "roles/catalog.h"
#include "workflows/load.h"

namespace sluice::cli {

struct Compiled {
  LoadedWorkflow loaded;  // with all diagnostics, sorted
  Plan plan;              // whole when there is no error
  bool ok() const { return !has_errors(loaded.diagnostics); }
  /// The workflow's, those that it includes, and those of its models.
  std::vector<std::string> files() const;
};

/// Errors: the file cannot be read, or is a scenario.
Result<Compiled> compile_file(const std::string& path, const WorkflowOptions& options,
                              const Catalog& catalog);

/// Prints errors (and warnings) to standard error.
void print_diagnostics(const Compiled& compiled);

/// Whether a workflow runs on this computer alone, or on those of a cluster file.
enum class Runs : std::uint8_t { here, on_computers };

/// Replaces each `model:` by its directory. One that is not there, or whose configuration says that
/// its role cannot play it, is an error more. So is an `ssd:` that cannot be used here, where the
/// workflow runs here.
void find_models(Compiled& compiled, const Catalog& catalog, Runs runs);

}  // namespace sluice::cli
