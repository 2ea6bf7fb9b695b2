#include "runtime/node/home_runner.h"

#include <utility>

#include "runtime/node/repeated_call.h"
#include "runtime/warned.h"

namespace sluice {

namespace {

/// Of a call that did not begin.
class NoCall final : public CallHandle {
 public:
  void cancel() override {}
};

}  // namespace

HomeRunner::~HomeRunner() {
  Now last;
  {
    const std::lock_guard lock(mutex_);
    // A call that fails from here on may ask for its second beginning.
    last.runner = std::exchange(now_.runner, nullptr);
    last.desk = std::exchange(now_.desk, nullptr);
    now_.may_begin = [] { return std::string("the machine ends"); };
  }
  if (last.desk) last.desk->close("the runner was destroyed before the call ended");
}

void HomeRunner::set(std::shared_ptr<Runner> runner, std::function<std::string()> may_begin,
                     std::shared_ptr<SessionDesk> desk) {
  std::vector<std::shared_ptr<Runner>> over;
  const std::lock_guard lock(mutex_);
  Now before = std::exchange(now_, {std::move(runner), std::move(may_begin), std::move(desk)});
  if (before.runner) before_.push_back(std::move(before.runner));
  std::erase_if(before_, [&](std::shared_ptr<Runner>& one) {
    const RunnerCounts counts = one->counts();
    if (counts.activations != 0) return false;
    gone_.dropped += counts.dropped;
    gone_.refused += counts.refused;
    over.push_back(std::move(one));
    return true;
  });
}

std::shared_ptr<CallHandle> HomeRunner::start(CallRequest request, CallObserver observer) {
  if (!repeats_) return start_once(std::move(request), std::move(observer));
  const auto call = std::make_shared<RepeatedCall>(
      std::move(request), std::move(observer),
      [this](CallRequest again, CallObserver told) {
        return start_once(std::move(again), std::move(told));
      },
      limit_, repeated_);
  call->begin();
  return call;
}

std::shared_ptr<CallHandle> HomeRunner::start_once(CallRequest request, CallObserver observer) {
  const Now now = this->now();
  const std::string why = now.may_begin();
  if (!why.empty()) {
    if (observer.on_end) observer.on_end({false, {ErrorCode::unavailable, why}, "", {}});
    return std::make_shared<NoCall>();
  }
  if (begins_anew_)
    if (std::string line = begins_anew_(request.session); !line.empty())
      observer = warned(std::move(observer), std::move(line));
  if (now.desk) return now.desk->start(now.runner, limit_, std::move(request), std::move(observer));
  return now.runner->start(std::move(request), std::move(observer));
}

Result<void> HomeRunner::end_session(const std::string& session) {
  const Now now = this->now();
  return now.desk ? now.desk->end_session(*now.runner, session) : now.runner->end_session(session);
}

RunnerCounts HomeRunner::counts() const {
  const std::lock_guard lock(mutex_);
  RunnerCounts all = gone_;
  all.repeated = repeated_.load();
  const auto add = [&](const RunnerCounts& counts) {
    all.calls += counts.calls;
    all.given_up += counts.given_up;
    all.activations += counts.activations;
    all.dropped += counts.dropped;
    all.refused += counts.refused;
  };
  add(now_.runner->counts());
  for (const auto& one : before_) add(one->counts());
  return all;
}

}  // namespace sluice
