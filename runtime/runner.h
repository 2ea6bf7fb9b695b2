// Runs a compiled workflow in this process: role instances, engines, and what drives them.
//
// Thread: all of it from any thread. Owns: role instances and global parameters; they end with the
// last runner that uses them, which waits for roles that still run. Source: omni-flow, section 3.5
// (concurrency model), with bounded mailboxes instead of awaiting the downstream forward inside
// `send`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/payload.h"
#include "base/peer_port.h"
#include "base/result.h"
#include "graph/plan.h"
#include "roles/catalog.h"
#include "runtime/trace.h"

namespace sluice {

struct CallRequest {
  std::string session = "default";
  std::vector<std::pair<std::string, PayloadRef>> inputs;
  /// The call's own, from its start; zero: the workflow's alone (limits: deadline).
  std::chrono::milliseconds deadline{0};
  /// In the trace, from 1: a line of a file, say. 0: one more than the call before.
  std::size_t number = 0;
};

/// How a call ended: exactly one per call.
struct CallOutcome {
  bool ok = false;
  Error error;                        // when not ok: code and message
  std::string node;                   // the node that failed; empty when none did
  std::vector<std::string> warnings;  // e.g. "draw: 2 frames of prompt left over"
  /// Whether it failed because a machine is gone that it used: before anything of it ran, or amid.
  enum class Lost : std::uint8_t { no, before, amid } lost = Lost::no;
};

/// One output frame: the declared output's name and its value, in logical order per output.
using OnOutput = std::function<void(std::string_view output, const PayloadRef& value)>;

/// Who hears of a call. Thread: any of the runner's, and any that starts or cancels a call of it,
/// before that returns; one at a time, and nothing after the end. Must return soon: other calls
/// wait meanwhile. May start and cancel calls, not wait for them.
struct CallObserver {
  OnOutput on_output;
  std::function<void(CallOutcome outcome)> on_end;
};

/// A call that was started. Letting go of the handle does not end it.
class CallHandle {
 public:
  virtual ~CallHandle() = default;
  /// The result is no longer wanted. The call still ends with an outcome, within the grace.
  virtual void cancel() = 0;
};

struct RunnerOptions {
  std::string root = ".";     // directory that `model:` paths are relative to
  std::uint32_t threads = 0;  // that a role may compute on, of those all share; 0: all cores
  /// From a deadline or a cancellation to the end for the caller, where roles do not look.
  std::chrono::milliseconds grace{100};
  /// Activations of each workflow that `Runner::trace` remembers; 0: none, and it costs nothing.
  std::size_t trace = 0;
  /// Called on the constructing thread before anything slow, e.g. "loading models/scenes for llm".
  std::function<void(std::string_view)> progress;
  /// For global parameters that roles on other machines list too.
  std::shared_ptr<PeerPort> peers;
};

/// A workflow to run beside others. Both are borrowed while runners are made.
struct Graph {
  const WorkflowSpec* spec = nullptr;
  const Plan* plan = nullptr;
};

/// What a runner has in hand.
struct RunnerCounts {
  std::size_t calls = 0;        // of which something is left, those that were given up too
  std::size_t given_up = 0;     // ended for their callers; their roles have not returned yet
  std::size_t activations = 0;  // that run, or wait for their lane
  std::uint64_t dropped = 0;    // frames that came for calls that had ended for their callers, ever
  std::uint64_t refused = 0;    // calls, because too many were under way (limits: calls), ever
  std::uint64_t repeated = 0;   // calls that began once more, because a machine was lost, ever
};

/// What a global parameter has done.
struct ParamCounts {
  std::string name;
  std::vector<std::pair<std::string, std::uint64_t>> counts;
};

class Runner {
 public:
  /// Borrows the catalog until the runner ends. Errors: a plugin that cannot be made.
  static Result<std::unique_ptr<Runner>> create(const WorkflowSpec& spec, const Plan& plan,
                                                const Catalog& catalog, RunnerOptions options);
  /// A runner for each workflow. What they import from the same file they share: one instance, one
  /// model in memory, and a session of one name is one session to it.
  static Result<std::vector<std::unique_ptr<Runner>>> create_together(std::span<const Graph> graphs,
                                                                      const Catalog& catalog,
                                                                      const RunnerOptions& options);
  /// Ends its calls with an error, then waits for roles that only it uses.
  virtual ~Runner() = default;

  using OnOutput = sluice::OnOutput;

  /// Waits for no role; any number of calls may be under way. A request that is refused ends with
  /// an outcome too, before this returns; so does, soon, a call that comes while as many are under
  /// way as the workflow takes (`exhausted`). Calls of one session run first in, first out.
  virtual std::shared_ptr<CallHandle> start(CallRequest request, CallObserver observer) = 0;
  /// Blocks until the call has ended; outputs arrive on the caller's thread.
  CallOutcome call(CallRequest request, const OnOutput& on_output);

  /// Frees what the session holds (keys and values, what was said). A later call of that name
  /// begins anew. Errors: unavailable while one of its calls is under way, here or in a workflow
  /// beside this one.
  virtual Result<void> end_session(const std::string& session) = 0;

  virtual RunnerCounts counts() const = 0;
  /// What has run, and when, since the runner was made: as much as RunnerOptions::trace says.
  virtual Trace trace() const = 0;
};

}  // namespace sluice
