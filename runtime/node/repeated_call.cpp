#include "runtime/node/repeated_call.h"

#include <algorithm>
#include <utility>

#include "graph/spec.h"

namespace sluice {

RepeatedCall::RepeatedCall(CallRequest request, CallObserver observer, Start start,
                           std::chrono::milliseconds limit, std::atomic<std::uint64_t>& repeated)
    : start_(std::move(start)),
      limit_(request.deadline.count() > 0 ? std::min(request.deadline, limit) : limit),
      repeated_(repeated),
      observer_(std::move(observer)),
      request_(std::move(request)) {}

void RepeatedCall::begin() { start_attempt(request_); }

void RepeatedCall::start_attempt(CallRequest request) {
  std::uint32_t attempt = 0;
  {
    const std::lock_guard lock(mutex_);
    attempt = ++attempts_;
  }
  std::shared_ptr<CallHandle> handle = start_(
      std::move(request),
      {[self = shared_from_this()](std::string_view name, const PayloadRef& value) {
         self->output(name, value);
       },
       [self = shared_from_this()](CallOutcome outcome) { self->ended(std::move(outcome)); }});
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    if (attempt != attempts_) return;  // it has ended meanwhile, and another has begun
    handle_ = handle;
    cancelled = cancelled_;
  }
  if (cancelled) handle->cancel();
}

void RepeatedCall::cancel() {
  std::shared_ptr<CallHandle> handle;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    handle = handle_;
  }
  if (handle) handle->cancel();
}

void RepeatedCall::output(std::string_view name, const PayloadRef& value) {
  {
    const std::lock_guard lock(mutex_);
    told_ = true;
    request_.inputs.clear();
  }
  if (observer_.on_output) observer_.on_output(name, value);
}

bool RepeatedCall::may_repeat(const CallOutcome& outcome, CallRequest& request) {
  const std::lock_guard lock(mutex_);
  if (outcome.lost == CallOutcome::Lost::no || told_ || cancelled_ || attempts_ > 1) return false;
  request = std::move(request_);
  if (limit_.count() > 0) {
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - began_);
    if (passed >= limit_) return false;
    request.deadline = limit_ - passed;
  }
  first_ = outcome;
  return true;
}

void RepeatedCall::ended(CallOutcome outcome) {
  CallRequest request;
  if (may_repeat(outcome, request)) return start_attempt(std::move(request));
  if (first_.lost != CallOutcome::Lost::no) {
    if (outcome.lost == CallOutcome::Lost::before) {
      outcome = std::move(first_);  // there is no other machine to begin on
    } else {
      repeated_.fetch_add(1);
      outcome.warnings.push_back(first_.error.message + "; the call began once more");
    }
  }
  CallObserver observer = std::exchange(observer_, {});
  if (observer.on_end) observer.on_end(std::move(outcome));
}

bool is_repeatable(const WorkflowSpec& spec, const Plan& plan) {
  return std::ranges::all_of(plan.nodes, [&](const PlanNode& node) {
    return node.id == entry_node || spec.roles[node.role].idempotent;
  });
}

}  // namespace sluice
