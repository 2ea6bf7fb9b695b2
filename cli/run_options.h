// What the command line of `sluice run` says, and which of it does not go together.
//
// Errors: invalid_argument, with the options that it is about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_line.h"
#include "cli/isolate.h"
#include "cli/workflow_options.h"

namespace sluice::cli {

struct RunOptions {
  std::string file;
  std::string cluster;
  std::string name;                // which of its homes
  std::int64_t join_seconds = 60;  // for the other machines
  std::vector<std::string> images, inputs, without, outs;
  std::optional<std::string> prompt;
  std::string request;
  std::string calls;
  std::optional<std::size_t> concurrency;  // none: the usual, or what the workflow takes
  std::string session;
  std::string trace;
  IsolateOptions isolate;
  std::optional<std::int64_t> max_tokens, top_k, seed, steps;
  std::optional<double> temperature, top_p, guidance, strength;
  std::optional<std::string> tenant;
  WorkflowOptions workflow;

  bool samples() const {
    return max_tokens || top_k || seed || steps || temperature || top_p || guidance || strength ||
           tenant;
  }
  /// Something is said that goes into `request: json`.
  bool asks() const { return prompt || !images.empty() || !request.empty() || samples(); }
};

/// Options of the command; they are written there when the command line is read. Borrows both.
void add_run_options(Command command, RunOptions& options);

/// What of the options does not go together.
Result<void> check_run_options(const RunOptions& options);

}  // namespace sluice::cli
