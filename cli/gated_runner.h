// A runner whose calls begin only while something else allows it; calls that have begun go on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/runner.h"

namespace sluice::cli {

class GatedRunner final : public Runner {
 public:
  /// Borrows the runner. `may_begin`: an error ends the call at once. Thread: any.
  GatedRunner(Runner& runner, std::function<Result<void>()> may_begin)
      : runner_(runner), may_begin_(std::move(may_begin)) {}

  std::shared_ptr<CallHandle> start(CallRequest request, CallObserver observer) override {
    const Result<void> allowed = may_begin_();
    if (allowed.ok()) return runner_.start(std::move(request), std::move(observer));
    observer.on_end({false, allowed.error(), {}, {}});
    return std::make_shared<Ended>();
  }
  Result<void> end_session(const std::string& session) override {
    return runner_.end_session(session);
  }
  RunnerCounts counts() const override { return runner_.counts(); }
  Trace trace() const override { return runner_.trace(); }

 private:
  class Ended final : public CallHandle {
    void cancel() override {}
  };
  Runner& runner_;
  const std::function<Result<void>()> may_begin_;
};

}  // namespace sluice::cli
