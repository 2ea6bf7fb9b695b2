// The driver's clock: deadlines, what is given up, and the end of a runner.
#include <algorithm>
#include <utility>

#include "runtime/inproc/driver.h"

namespace sluice {

namespace {

std::string text_of(std::chrono::milliseconds time) { return std::to_string(time.count()) + " ms"; }

}  // namespace

void Driver::start(const Ref<CallState>& call, std::vector<PayloadRef> inputs) {
  {
    const std::lock_guard lock(clock_mutex_);
    call->key = next_key_++;
    watched_.emplace(call->key, call);
    watch_.opened(call->key, steady_now() + std::chrono::duration_cast<Instant>(call->deadline));
    if (watch_.next() < clock_at_) wake_clock();
  }
  auto event = std::make_unique<Event>();
  event->kind = Event::Kind::call;
  event->call = call;
  event->inputs = std::move(inputs);
  announce(std::move(event));
}

void Driver::cancel(const Ref<CallState>& call) {
  if (call->stopped.exchange(true)) return;
  {
    const std::lock_guard lock(clock_mutex_);
    watch_.cancelled(call->key, steady_now());
    if (watch_.next() < clock_at_) wake_clock();
  }
  announce(Event::Kind::cancel, call);
}

void Driver::close(const std::string& why) {
  announce(Event::Kind::close, {});
  closed_.wait(false);
  {
    // A role that runs on gets no memory of a port that is gone.
    const std::unique_lock lock(lends_mutex_);
    lends_ = false;
  }
  // Nothing starts any more, which is what callers may rely on when they hear of it.
  std::map<std::uint64_t, Ref<CallState>> open;
  {
    const std::lock_guard lock(clock_mutex_);
    open.swap(watched_);
  }
  for (const auto& [key, call] : open) call->end({false, {ErrorCode::unavailable, why}, "", {}});
  {
    const std::lock_guard lock(clock_mutex_);
    stop_ = true;
    wake_clock();
  }
  if (clock_.joinable()) clock_.join();
}

RunnerCounts Driver::counts() const {
  return {calls_open_.load(), given_up_.load(), activations_open_.load(), dropped_.load(),
          refused_.load()};
}

void Driver::wake_clock() {
  clock_at_ = Instant::min();  // once is enough
  clock_changed_.notify_one();
}

void Driver::set_clock() {
  const Instant next = loop_.next_deadline();
  const std::lock_guard lock(clock_mutex_);
  node_due_ = next;
  if (next < clock_at_) wake_clock();
}

void Driver::forget(const CallState& call) {
  const std::lock_guard lock(clock_mutex_);
  watch_.ended(call.key);
  watched_.erase(call.key);
}

void Driver::tick() {
  std::unique_lock lock(clock_mutex_);
  while (take_over_ || !stop_) {
    if (std::exchange(take_over_, false)) {
      lock.unlock();
      drive(1);
      lock.lock();
      continue;
    }
    if (look(lock)) continue;
    clock_at_ = std::min(watch_.next(), node_due_);
    if (clock_at_ == Instant::max())
      clock_changed_.wait(lock);
    else
      clock_changed_.wait_until(lock, std::chrono::steady_clock::time_point(clock_at_));
    clock_at_ = Instant::min();  // it looks anyway
  }
}

bool Driver::look(std::unique_lock<std::mutex>& lock) {
  const Instant time = steady_now();
  decisions_.clear();
  watch_.due(time, decisions_);
  std::vector<std::pair<CallWatch::What, Ref<CallState>>> decided;
  for (const CallWatch::Decision& decision : decisions_) {
    const auto it = watched_.find(decision.call);
    if (it == watched_.end()) continue;
    decided.emplace_back(decision.what, it->second);
    if (decision.what == CallWatch::What::give_up) watched_.erase(it);
  }
  const bool nodes = node_due_ <= time;
  if (nodes) node_due_ = Instant::max();
  if (decided.empty() && !nodes) return false;
  lock.unlock();
  for (const auto& [what, call] : decided) decide(what, call);
  if (nodes) announce(Event::Kind::time, {});
  lock.lock();
  return true;
}

void Driver::look_between() {
  if (closing_ || std::this_thread::get_id() != clock_.get_id()) return;
  std::unique_lock lock(clock_mutex_);
  // Something is announced while this thread drives, so what it decides is handled later.
  look(lock);
}

void Driver::decide(CallWatch::What what, const Ref<CallState>& call) {
  if (what == CallWatch::What::stop) {
    if (call->stopped.exchange(true)) return;
    call->past_deadline = true;
    return announce(Event::Kind::cancel, call);
  }
  announce(Event::Kind::give_up, call);
  // Whoever drives may never come to it: then nobody says which node it is.
  call->end(overdue(*call, entry_node));
}

Error Driver::stopped(const CallState& call) const {
  if (!call.past_deadline) return {ErrorCode::cancelled, "the caller cancelled the call"};
  return {
      ErrorCode::deadline,
      "the call did not end within its deadline of " + text_of(call.deadline) +
          (call.deadline < plan_->limits.deadline ? " (the call's own)" : " (limits: deadline)")};
}

CallOutcome Driver::overdue(const CallState& call, NodeId still_running) const {
  CallOutcome outcome;
  outcome.error = stopped(call);
  if (still_running == entry_node) {
    outcome.error.message += "; it was given up " + text_of(grace_) + " later";
    return outcome;
  }
  outcome.node = plan_->nodes[still_running].name;
  outcome.error.message +=
      "; node '" + outcome.node + "' still runs " + text_of(grace_) + " after it was told to stop";
  return outcome;
}

}  // namespace sluice
