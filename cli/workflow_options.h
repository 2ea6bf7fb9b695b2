// Options of every command that takes workflows: validate, plan, test, simulate and run.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "workflows/override.h"

namespace sluice::cli {

struct WorkflowOptions {
  std::vector<Override> overrides;  // --set, in order
};

/// `options` lives as long as the command.
void add_workflow_options(CLI::App& command, WorkflowOptions& options);

}  // namespace sluice::cli
