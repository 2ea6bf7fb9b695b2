#include "runtime/node/session_desk.h"

#include <algorithm>
#include <utility>

#include "runtime/session_grants.h"
#include "runtime/warned.h"

namespace sluice {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

/// One call, from when it came. What it needs to begin is taken out once.
class SessionDesk::Call final : public CallHandle {
 public:
  Call(std::weak_ptr<SessionDesk> desk, std::shared_ptr<Runner> its_runner, CallRequest its_request,
       CallObserver its_observer, milliseconds its_limit)
      : runner(std::move(its_runner)),
        request(std::move(its_request)),
        observer(std::move(its_observer)),
        limit(its_limit),
        own_limit(request.deadline),
        desk_(std::move(desk)) {}

  void cancel() override {
    std::shared_ptr<CallHandle> handle;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      handle = handle_;
    }
    if (handle) return handle->cancel();
    if (const auto desk = desk_.lock()) desk->cancel(number);
  }
  void begun(const std::shared_ptr<CallHandle>& handle) {
    {
      const std::lock_guard lock(mutex_);
      handle_ = handle;
      if (!cancelled_) return;
    }
    handle->cancel();
  }
  /// How long it may take; zero: as long as it likes.
  milliseconds allowed() const {
    if (own_limit.count() == 0 || limit.count() == 0) return std::max(own_limit, limit);
    return std::min(own_limit, limit);
  }

  std::uint64_t number = 0;
  std::shared_ptr<Runner> runner;
  CallRequest request;
  CallObserver observer;
  const steady_clock::time_point came = steady_clock::now();
  const milliseconds limit, own_limit;

 private:
  const std::weak_ptr<SessionDesk> desk_;
  std::mutex mutex_;
  std::shared_ptr<CallHandle> handle_;
  bool cancelled_ = false;
};

SessionDesk::SessionDesk(Options options)
    : options_(std::move(options)), claims_(options_.waiting_max) {}

SessionDesk::~SessionDesk() {
  if (!thread_.joinable()) return;
  // The thread keeps this object until it has nothing more to do, and may be the last that does.
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

std::shared_ptr<CallHandle> SessionDesk::start(const std::shared_ptr<Runner>& runner,
                                               milliseconds limit, CallRequest request,
                                               CallObserver observer) {
  if (!takes(request.session)) return runner->start(std::move(request), std::move(observer));
  const std::string session = request.session;
  auto call = std::make_shared<Call>(weak_from_this(), runner, std::move(request),
                                     std::move(observer), limit);
  ClaimEffects effects;
  {
    const std::lock_guard lock(mutex_);
    call->number = next_++;
    calls_[call->number] = call;
    const milliseconds allowed = call->allowed();
    const bool ends = allowed.count() > 0 && allowed < std::chrono::hours(24 * 365);
    claims_.call(session, call->number, ends ? call->came + allowed : SessionClaims::Time::max(),
                 effects);
    if (claims_.waiting() > 0 && !thread_.joinable())
      thread_ = std::thread([self = shared_from_this()] { self->watch(); });
    changed_.notify_all();
  }
  perform(std::move(effects));
  return call;
}

Result<void> SessionDesk::end_session(Runner& runner, const std::string& session) {
  if (!takes(session)) return runner.end_session(session);
  SessionClaims::End end{};
  {
    const std::lock_guard lock(mutex_);
    end = claims_.end(session);
  }
  if (end == SessionClaims::End::busy)
    return Error{ErrorCode::unavailable,
                 "session '" + session +
                     "' has a call under way, which is about to begin; end it "
                     "when that has ended"};
  Result<void> ended = runner.end_session(session);
  if (end == SessionClaims::End::not_had) return ended;
  ClaimEffects effects;
  {
    const std::lock_guard lock(mutex_);
    claims_.ended(session, ended.ok(), effects);
  }
  perform(std::move(effects));
  return ended;
}

bool SessionDesk::answered(const Control& control) {
  ClaimEffects effects;
  bool asked = false;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_why_.empty()) return true;
    if (control.kind == Control::Kind::session_granted)
      asked = claims_.granted(control.text, control.life, effects);
    else if (control.kind == Control::Kind::session_elsewhere)
      asked = claims_.elsewhere(control.text, control.life, effects);
    else
      asked = claims_.full(control.text, effects);
  }
  perform(std::move(effects));
  return asked;
}

void SessionDesk::cancel(std::uint64_t call) {
  ClaimEffects effects;
  {
    const std::lock_guard lock(mutex_);
    claims_.cancel(call, effects);
  }
  perform(std::move(effects));
}

void SessionDesk::close(const std::string& why) {
  ClaimEffects effects;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_why_.empty()) return;
    closed_why_ = why;
    stop_ = true;
    changed_.notify_all();
    claims_.close(effects);
  }
  perform(std::move(effects));
}

std::shared_ptr<SessionDesk::Call> SessionDesk::take(std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(call);
  std::shared_ptr<Call> taken = std::move(found->second);
  calls_.erase(found);
  return taken;
}

void SessionDesk::perform(ClaimEffects effects) {
  while (!effects.empty()) {
    ClaimEffects next;
    for (const ClaimEffect& effect : effects) {
      using Kind = ClaimEffect::Kind;
      if (effect.kind == Kind::ask || effect.kind == Kind::give_back) {
        Control control{.kind = effect.kind == Kind::ask ? Control::Kind::session_wanted
                                                         : Control::Kind::session_given_back};
        control.text = effect.session;
        options_.tell(std::move(control));
      } else if (effect.kind == Kind::start) {
        begin(effect);
        const std::lock_guard lock(mutex_);
        claims_.started(effect.session, next);
      } else {
        const std::shared_ptr<Call> call = take(effect.call);
        CallObserver observer = std::exchange(call->observer, {});
        call->runner.reset();
        if (observer.on_end) observer.on_end({false, error_of(effect, *call), "", {}});
      }
    }
    effects = std::move(next);
  }
}

void SessionDesk::begin(const ClaimEffect& effect) {
  const std::shared_ptr<Call> call = take(effect.call);
  CallObserver observer = std::exchange(call->observer, {});
  // Of its own earlier lives in this process `HomeRunner` tells.
  const bool is_own =
      effect.home.machine == options_.self && effect.home.incarnation >= options_.process;
  if (effect.home.incarnation != 0 && !is_own) {
    const std::vector<std::string>& machines = options_.machines;
    const std::string line =
        "session '" + effect.session + "' was at machine '" + machines[effect.home.machine] +
        "', which is lost: it begins anew at machine '" + machines[options_.self] + "'";
    observer = warned(std::move(observer), line);
    if (options_.notice) options_.notice(line);
  }
  if (const milliseconds allowed = call->allowed(); allowed.count() > 0) {
    const auto waited = std::chrono::duration_cast<milliseconds>(steady_clock::now() - call->came);
    // Its own deadline stays as it was given where it did not wait.
    if (waited.count() > 0) call->request.deadline = std::max(milliseconds(1), allowed - waited);
  }
  call->begun(call->runner->start(std::move(call->request), std::move(observer)));
  call->runner.reset();
}

Error SessionDesk::full() const {
  std::size_t sessions = 0;
  {
    const std::lock_guard lock(mutex_);
    sessions = claims_.size();
  }
  const std::string most =
      sessions >= options_.sessions_max
          ? ""
          : ", with names of " + std::to_string(SessionGrants::bytes_max >> 20U) + " MiB";
  return {ErrorCode::exhausted,
          "this home has " + std::to_string(std::min(sessions, options_.sessions_max)) +
              " sessions that have not ended" + most +
              ", as many as may be: no call begins in another one until one of them is ended"};
}

Error SessionDesk::error_of(const ClaimEffect& effect, const Call& call) const {
  using Kind = ClaimEffect::Kind;
  const std::string session = "session '" + effect.session + "'";
  switch (effect.kind) {
    case Kind::elsewhere:
      return {ErrorCode::unavailable, session + " is at machine '" +
                                          options_.machines[effect.home.machine] +
                                          "': call it there"};
    case Kind::full:
      return full();
    case Kind::crowded:
      return {ErrorCode::exhausted, std::to_string(options_.waiting_max) +
                                        " calls wait for the keeper's word on their sessions, as "
                                        "many as may; call again when some have begun"};
    case Kind::overdue:
      return {ErrorCode::deadline,
              "the call did not begin within its deadline of " +
                  std::to_string(call.allowed().count()) + " ms" +
                  (call.own_limit.count() > 0 && call.allowed() == call.own_limit
                       ? " (the call's own)"
                       : " (limits: deadline)") +
                  ": it waited for the keeper's word on " + session};
    case Kind::cancelled:
      return {ErrorCode::cancelled, "the caller cancelled the call"};
    default: {
      const std::lock_guard lock(mutex_);
      return {ErrorCode::unavailable, closed_why_};
    }
  }
}

void SessionDesk::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const SessionClaims::Time due = claims_.due();
    ClaimEffects effects;
    claims_.tick(steady_clock::now(), effects);
    if (!effects.empty()) {
      lock.unlock();
      perform(std::move(effects));
      lock.lock();
    } else if (due == SessionClaims::Time::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, due);
    }
  }
}

}  // namespace sluice
