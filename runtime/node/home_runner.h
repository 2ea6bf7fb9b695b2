// A workflow's runner at a home, through the lives of its machine.
//
// Calls begin in the machine's present life, once that is let in. Those of a life that is over have
// ended by then; a runner whose roles have not returned is kept, and counted, until they have.
// Where the workflow allows it, a call whose machine is lost begins once more (`RepeatedCall`).
// Thread: any. Owns: the runners, and outlives their calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/node/session_desk.h"
#include "runtime/runner.h"

namespace sluice {

class HomeRunner final : public Runner {
 public:
  /// `repeats`: its calls may begin once more (`is_repeatable`). `limit`: the workflow's deadline.
  /// `begins_anew`: asked once for each call; words on why its session does, or empty.
  HomeRunner(bool repeats, std::chrono::milliseconds limit,
             std::function<std::string(const std::string& session)> begins_anew)
      : repeats_(repeats), limit_(limit), begins_anew_(std::move(begins_anew)) {}
  ~HomeRunner() override;
  HomeRunner(const HomeRunner&) = delete;
  HomeRunner& operator=(const HomeRunner&) = delete;
  /// Calls begin here from now on. `may_begin`: empty, or why none can. `desk`: of one of several
  /// homes, which have to ask for their sessions.
  void set(std::shared_ptr<Runner> runner, std::function<std::string()> may_begin,
           std::shared_ptr<SessionDesk> desk = nullptr);

  std::shared_ptr<CallHandle> start(CallRequest request, CallObserver observer) override;
  Result<void> end_session(const std::string& session) override;
  RunnerCounts counts() const override;
  /// Calls that began once more, ever.
  std::uint64_t repeated() const { return repeated_.load(); }
  Trace trace() const override { return now().runner->trace(); }

 private:
  struct Now {
    std::shared_ptr<Runner> runner;
    std::function<std::string()> may_begin;
    std::shared_ptr<SessionDesk> desk;
  };
  Now now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }

  std::shared_ptr<CallHandle> start_once(CallRequest request, CallObserver observer);

  const bool repeats_;
  const std::chrono::milliseconds limit_;
  const std::function<std::string(const std::string& session)> begins_anew_;
  std::atomic<std::uint64_t> repeated_{0};
  mutable std::mutex mutex_;
  Now now_;
  std::vector<std::shared_ptr<Runner>> before_;
  RunnerCounts gone_;  // of those that are gone: what was counted ever
};

}  // namespace sluice
