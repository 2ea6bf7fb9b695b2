// Runs a compiled workflow in this process: role instances, engines, and one loop that drives them.
//
// Thread: `call` may be used from many threads; each call's outputs arrive on the caller's thread.
// Owns: role instances and global parameters; they end with the runner.
// Source: omni-flow, section 3.5 (concurrency model), with bounded mailboxes instead of awaiting
// the downstream forward inside `send`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/payload.h"
#include "base/result.h"
#include "graph/plan.h"
#include "roles/catalog.h"

namespace sluice {

struct CallRequest {
  std::string session = "default";
  std::vector<std::pair<std::string, PayloadRef>> inputs;
};

/// How a call ended: exactly one per call.
struct CallOutcome {
  bool ok = false;
  Error error;                         // when not ok: code and message
  std::string node;                    // the node that failed; empty when none did
  std::vector<std::string> warnings;   // e.g. "draw: 2 frames of prompt left over"
};

struct RunnerOptions {
  std::string root = ".";     // directory that `model:` paths are relative to
  std::uint32_t threads = 2;  // role threads
  /// Called on the constructing thread before anything slow, e.g. "loading models/scenes for llm".
  std::function<void(std::string_view)> progress;
};

class Runner {
 public:
  /// Borrows the catalog until the runner ends. Errors: a plugin that cannot be made.
  static Result<std::unique_ptr<Runner>> create(const WorkflowSpec& spec, const Plan& plan,
                                                const Catalog& catalog, RunnerOptions options);
  virtual ~Runner() = default;

  /// One output frame: the declared output's name and its value, in logical order per output.
  using OnOutput = std::function<void(std::string_view output, const PayloadRef& value)>;

  /// Blocks until the call has ended. Calls of one session run first in, first out.
  virtual CallOutcome call(CallRequest request, const OnOutput& on_output) = 0;
};

}  // namespace sluice
