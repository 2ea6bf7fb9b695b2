// A call that begins once more, on other machines, when one that it used is lost.
//
// Only a workflow whose roles are all `idempotent` makes such calls, and only until the call's
// first output: what ran for it may run twice, what its caller has heard is not said twice. It has
// one outcome, with a warning that says why it began again; its deadline counts from its first
// beginning. Of its session's calls that wait it is the last from then on.
// Thread: any; the observer as with any call. Source: docs/CLUSTER.md (a role on several machines).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/runner.h"

namespace sluice {

class RepeatedCall final : public CallHandle, public std::enable_shared_from_this<RepeatedCall> {
 public:
  using Start = std::function<std::shared_ptr<CallHandle>(CallRequest, CallObserver)>;

  /// `start`: begins a call, the second one too, from within the end of the first. `limit`: the
  /// workflow's deadline. `repeated`: counts calls that began again; borrowed for as long as
  /// `start`.
  RepeatedCall(CallRequest request, CallObserver observer, Start start,
               std::chrono::milliseconds limit, std::atomic<std::uint64_t>& repeated);
  /// Once, when it belongs to a shared pointer.
  void begin();
  void cancel() override;

 private:
  void start_attempt(CallRequest request);
  void output(std::string_view name, const PayloadRef& value);
  void ended(CallOutcome outcome);
  /// What is left of its time goes into the request. False: it may not begin again.
  bool may_repeat(const CallOutcome& outcome, CallRequest& request);

  const Start start_;
  const std::chrono::milliseconds limit_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t>& repeated_;
  CallObserver observer_;

  std::mutex mutex_;
  CallRequest request_;  // without values as soon as it may not begin again
  std::shared_ptr<CallHandle> handle_;
  std::uint32_t attempts_ = 0;
  bool told_ = false;       // an output
  bool cancelled_ = false;  // by its caller
  CallOutcome first_{};     // of the attempt before this one
};

/// All of the workflow's roles may run twice, so its calls may begin once more.
bool is_repeatable(const WorkflowSpec& spec, const Plan& plan);

}  // namespace sluice
