// A workflow in a few lines, run on one thread with scripted nodes, for tests of the control flow.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/check.h"
#include "runtime/inproc/loop.h"
#include "workflows/load.h"

namespace sluice::testing {

/// What a scripted node yields: per frame, its fields by name.
using Yields = std::vector<std::vector<std::string>>;

struct Firing {
  std::string node;
  std::size_t group = 0;
  std::map<std::string, std::vector<std::string>> inputs;   // by field: where each value came from
  std::uint32_t replica = 0;                                // of a node that runs on each
};

/// Runs calls of a workflow. A value names its own origin, "node#yield<origin of the trigger>";
/// of a node that runs on each replica, "node@replica#yield<...>".
class Harness : public LoopHost {
 public:
  explicit Harness(const std::string& yaml);
  Harness(const std::string& yaml, const Declarations& declarations);

  // By "node", or "node@replica" where it runs on each.
  std::map<std::string, Yields> yields;              // default: one frame with all fields
  std::map<std::string, std::int64_t> numbers;       // value of a field, "node.field"
  std::map<std::string, bool> fails;
  std::function<std::size_t(std::size_t)> pick = [](std::size_t) { return std::size_t{0}; };
  /// Ends an activation with its last frame (true) or separately (false).
  bool merge_last = true;

  CallId call(std::uint64_t session = 1);
  /// Answers started activations until none is left.
  void run();

  const Plan& plan() const { return plan_; }
  Loop& loop() { return *loop_; }

  std::vector<Firing> firings;
  std::map<CallId, std::vector<std::pair<std::string, std::string>>> outputs;   // name, value
  std::map<CallId, std::string> status;                                          // "ok" or message
  std::vector<std::string> warnings;

 private:
  void start(const StartActivation& start) override { waiting_.push_back(start); }
  void cancel(const CancelActivation&) override {}
  void deliver(const DeliverOutput& output) override;
  void end(EndCall& end) override;
  void answer(const StartActivation& start);

  LoadedWorkflow loaded_;
  Plan plan_;
  std::unique_ptr<Loop> loop_;
  std::vector<StartActivation> waiting_;
};

/// The plugin that takes its ports from the workflow.
Declarations scripted();

/// Nothing of any call is left in the loop and its engines.
void require_clean(Harness& harness);

}  // namespace sluice::testing
