// Runs a compiled workflow in this process: role instances, engines, and one loop that drives them.
//
// Thread: `call` may be used from many threads; each call's outputs arrive on the caller's thread.
// Owns: role instances and global parameters; they end with the last runner that uses them.
// Source: omni-flow, section 3.5 (concurrency model), with bounded mailboxes instead of awaiting
// the downstream forward inside `send`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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

/// A workflow to run beside others. Both are borrowed while runners are made.
struct Graph {
  const WorkflowSpec* spec = nullptr;
  const Plan* plan = nullptr;
};

class Runner {
 public:
  /// Borrows the catalog until the runner ends. Errors: a plugin that cannot be made.
  static Result<std::unique_ptr<Runner>> create(const WorkflowSpec& spec, const Plan& plan,
                                                const Catalog& catalog, RunnerOptions options);
  /// A runner for each workflow. What they import from the same file they share: one instance, one
  /// model in memory, and a session of one name is one session to it.
  static Result<std::vector<std::unique_ptr<Runner>>> create_together(
      std::span<const Graph> graphs, const Catalog& catalog, const RunnerOptions& options);
  virtual ~Runner() = default;

  /// One output frame: the declared output's name and its value, in logical order per output.
  using OnOutput = std::function<void(std::string_view output, const PayloadRef& value)>;

  /// Blocks until the call has ended. Calls of one session run first in, first out.
  virtual CallOutcome call(CallRequest request, const OnOutput& on_output) = 0;

  /// Frees what the session holds (keys and values, what was said). A later call of that name
  /// begins anew. Errors: unavailable while one of its calls is under way, here or in a workflow
  /// beside this one.
  virtual Result<void> end_session(const std::string& session) = 0;
};

}  // namespace sluice
