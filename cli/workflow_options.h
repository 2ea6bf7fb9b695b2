// Options of every command that takes workflows: validate, plan, test, simulate and run.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "workflows/override.h"

namespace sluice::cli {

struct WorkflowOptions {
  std::vector<std::string> set;  // --set, in order: PATH=VALUE, checked

  std::vector<Override> overrides() const;
};

/// `options` lives as long as the command.
void add_workflow_options(Command command, WorkflowOptions& options);

}  // namespace sluice::cli
