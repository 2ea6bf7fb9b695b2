#include "runtime/idle_runner.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/idle_sessions.h"

namespace sluice {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string text_of(milliseconds time) {
  const auto count = time.count();
  if (count % 3'600'000 == 0) return std::to_string(count / 3'600'000) + " h";
  if (count % 60'000 == 0) return std::to_string(count / 60'000) + " min";
  if (count % 1'000 == 0) return std::to_string(count / 1'000) + " s";
  return std::to_string(count) + " ms";
}

/// A call that was refused has left nothing.
bool may_have_begun(const CallOutcome& outcome) {
  if (outcome.ok || !outcome.node.empty() || outcome.lost == CallOutcome::Lost::amid) return true;
  const ErrorCode code = outcome.error.code;
  return code != ErrorCode::unavailable && code != ErrorCode::exhausted &&
         code != ErrorCode::invalid_argument;
}

/// The sessions of runners that run together, and the thread that ends them.
class IdleWatch {
 public:
  IdleWatch() : thread_([this] { run(); }) {}
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;
  ~IdleWatch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  void enter(Runner& runner) {
    const std::lock_guard lock(mutex_);
    runners_.push_back(&runner);
  }
  /// It is not used any more.
  void leave(const Runner& runner) {
    std::unique_lock lock(mutex_);
    std::erase(runners_, &runner);
    changed_.wait(lock, [&] { return used_ != &runner; });
  }
  void call_begins(const std::string& session) {
    const std::lock_guard lock(mutex_);
    sessions_.call_begins(session);
  }
  std::optional<milliseconds> call_ended(const std::string& session, milliseconds limit,
                                         bool was_let_in) {
    const std::lock_guard lock(mutex_);
    const auto before = sessions_.next();
    const auto told = sessions_.call_ended(session, limit, was_let_in, steady_clock::now());
    if (sessions_.next() < before) changed_.notify_all();
    return told;
  }
  void forget(const std::string& session) {
    const std::lock_guard lock(mutex_);
    sessions_.forget(session);
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      const auto session =
          runners_.empty() ? std::nullopt : sessions_.take_due(steady_clock::now());
      if (session) {
        end(lock, *session);
      } else if (runners_.empty() || sessions_.next() == IdleSessions::Time::max()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, sessions_.next());
      }
    }
  }
  void end(std::unique_lock<std::mutex>& lock, const std::string& session) {
    used_ = runners_.front();
    Runner& runner = *runners_.front();
    lock.unlock();
    const Result<void> ended = runner.end_session(session);
    lock.lock();
    used_ = nullptr;
    // What is refused for another reason than a call under way would be so each time.
    const bool is_busy = !ended.ok() && ended.error().code == ErrorCode::unavailable;
    sessions_.ended(session, !is_busy, steady_clock::now());
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  IdleSessions sessions_;
  std::vector<Runner*> runners_;
  const Runner* used_ = nullptr;  // by the thread, without the lock
  bool stop_ = false;
  std::thread thread_;
};

class IdleRunner final : public Runner {
 public:
  IdleRunner(std::unique_ptr<Runner> runner, std::shared_ptr<IdleWatch> watch, IdleRule rule)
      : runner_(std::move(runner)), watch_(std::move(watch)), rule_(rule) {
    watch_->enter(*runner_);
  }
  ~IdleRunner() override { watch_->leave(*runner_); }

  std::shared_ptr<CallHandle> start(CallRequest request, CallObserver observer) override {
    const std::string session = request.session;
    watch_->call_begins(session);
    observer.on_end = [watch = watch_, session, rule = rule_,
                       on_end = std::move(observer.on_end)](CallOutcome outcome) {
      const auto idle = watch->call_ended(session, rule.limit, may_have_begun(outcome));
      if (idle && rule.keeps_sessions)
        outcome.warnings.insert(outcome.warnings.begin(),
                                "session '" + session + "' had no call for " + text_of(*idle) +
                                    " and was ended (limits: session_idle): it begins anew");
      if (on_end) on_end(std::move(outcome));
    };
    return runner_->start(std::move(request), std::move(observer));
  }
  Result<void> end_session(const std::string& session) override {
    Result<void> ended = runner_->end_session(session);
    if (ended.ok()) watch_->forget(session);
    return ended;
  }
  RunnerCounts counts() const override { return runner_->counts(); }
  Trace trace() const override { return runner_->trace(); }

 private:
  const std::unique_ptr<Runner> runner_;
  const std::shared_ptr<IdleWatch> watch_;
  const IdleRule rule_;
};

}  // namespace

IdleRule idle_rule(const WorkflowSpec& spec) {
  return {spec.limits.session_idle, std::ranges::any_of(spec.roles, [](const RoleSpec& role) {
            return !role.global_params.empty();
          })};
}

std::vector<std::unique_ptr<Runner>> end_idle_sessions(std::vector<std::unique_ptr<Runner>> runners,
                                                       const std::vector<IdleRule>& rules) {
  if (std::ranges::all_of(rules, [](const IdleRule& rule) { return rule.limit.count() == 0; }))
    return runners;
  const auto watch = std::make_shared<IdleWatch>();
  for (std::size_t i = 0; i < runners.size(); ++i)
    runners[i] = std::make_unique<IdleRunner>(std::move(runners[i]), watch, rules[i]);
  return runners;
}

}  // namespace sluice
