#include "runtime/inproc/lane.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/failpoint.h"
#include "runtime/inproc/lane_threads.h"

namespace sluice {

namespace {

/// As many run as what one activation causes before others have their turn.
constexpr int line_max = 64;

Error cancelled_before() {
  return {ErrorCode::cancelled, "the call was cancelled before the role began"};
}

/// What `work` threw, or nothing: a role of somebody else may throw, and a library below ours.
template <typename Work>
std::optional<std::string> thrown_by(Work work) {
  try {
    work();
    return {};
  } catch (const std::exception& error) {
    return std::string("the role threw: ") + error.what();
  } catch (...) {
    return "the role threw something that is no std::exception";
  }
}

}  // namespace

thread_local Lane* Lane::current_ = nullptr;

std::size_t Lane::add(RoleInstance instance) {
  slots_.push_back({std::move(instance), {}, {}, false});
  return slots_.size() - 1;
}

void Lane::push(LaneActivation* newest, LaneActivation* oldest) {
  // Who finds it empty says so; the others' work is found with the first's.
  if (mailbox_.push(newest, oldest) && !taken_.exchange(true)) threads_.ready(*this);
}

bool Lane::leave() {
  taken_.store(false);
  // Whoever has pushed in between saw it taken, unless it is taken anew.
  return mailbox_.empty() || taken_.exchange(true);
}

void Lane::work(const std::atomic<bool>& closing) {
  current_ = this;
  while (!closing.load()) {
    for (LaneActivation* next = mailbox_.take(); next != nullptr;) {
      LaneActivation* const activation = next;
      next = next->next;
      queue_.push(activation);
    }
    if (!stepping_ && queue_.empty()) {
      if (leave()) break;
      continue;
    }
    // What waits from now on runs after the next step of the stepped roles.
    const LaneActivation* const end = queue_.last();
    while (!queue_.empty()) {
      LaneActivation* const activation = queue_.pop();
      run_line(*activation);
      if (activation == end) break;
    }
    stepping_ = step_all();
    queue_.append(caused_);
  }
  current_ = nullptr;
}

void Lane::run_line(LaneActivation& activation) {
  run_one(activation);
  // Between two steps of a stepped role there is time for what waits, not for all that it causes.
  for (int more = line_max; more > 0 && !stepping_ && !caused_.empty(); --more) {
    ActivationQueue later = std::exchange(caused_, {});
    run_one(*later.pop());
    caused_.append(later);
  }
  queue_.append(caused_);
}

void Lane::run_one(LaneActivation& activation) {
  Slot& slot = slots_[activation.instance()];
  if (activation.cancelled()) return activation.end(cancelled_before());
  activation.role_begins();
  failpoint("activation_begun");
  if (auto* stepped = std::get_if<std::unique_ptr<SteppedRole>>(&slot.instance))
    return admit(slot, **stepped, activation);
  Role& role = *std::get<std::unique_ptr<Role>>(slot.instance);
  Result<void> result;
  if (auto thrown = thrown_by([&] { result = role.run(activation); }))
    result = Error{ErrorCode::unavailable, std::move(*thrown)};
  activation.end(std::move(result));
}

void Lane::admit(Slot& slot, SteppedRole& role, LaneActivation& activation) {
  slot.stalled = false;
  stepping_ = true;
  slot.admitted.push_back(&activation);
  activation.stepped = true;
  auto thrown = thrown_by([&] { role.admit(activation); });
  if (!thrown) return;
  slot.admitted.pop_back();
  slot.failed.push_back(&activation);
  activation.cancel();
  activation.end(Error{ErrorCode::unavailable, std::move(*thrown)}, false);
}

bool Lane::step_all() {
  bool busy = false;
  for (Slot& slot : slots_)
    if (auto* stepped = std::get_if<std::unique_ptr<SteppedRole>>(&slot.instance))
      busy = step(slot, **stepped) || busy;
  return busy;
}

bool Lane::step(Slot& slot, SteppedRole& role) {
  if (slot.admitted.empty() && slot.failed.empty()) return false;
  if (role.busy() && !slot.stalled) {
    wait_to_step(slot.admitted);
    outcomes_.clear();
    auto thrown = thrown_by([&] { role.step(outcomes_); });
    for (StepOutcome& outcome : outcomes_) returned(slot, outcome);
    if (thrown) step_threw(slot, *thrown);
  }
  if (role.busy()) return !slot.stalled;
  for (LaneActivation* activation : std::exchange(slot.failed, {})) activation->release();
  return false;
}

void Lane::wait_to_step(const std::vector<LaneActivation*>& admitted) {
  const auto may_go_on = [&admitted] {
    return std::ranges::any_of(admitted,
                               [](const auto* one) { return one->cancelled() && !one->passed; }) ||
           std::ranges::all_of(admitted, [](const auto* one) { return one->may_yield(); });
  };
  for (const LaneActivation* one : admitted)
    if (!one->may_yield()) {
      one->wait(may_go_on);
      break;
    }
  for (LaneActivation* one : admitted) one->passed = one->cancelled();
}

void Lane::step_threw(Slot& slot, const std::string& what) {
  slot.stalled = slot.admitted.empty();
  for (LaneActivation* activation : std::exchange(slot.admitted, {})) {
    slot.failed.push_back(activation);
    activation->cancel();
    activation->end(Error{ErrorCode::unavailable, what}, false);
  }
}

void Lane::returned(Slot& slot, StepOutcome& outcome) {
  const auto is_it = [&](const LaneActivation* held) { return held == outcome.activation; };
  if (const auto it = std::ranges::find_if(slot.failed, is_it); it != slot.failed.end()) {
    LaneActivation* const activation = *it;
    slot.failed.erase(it);
    return activation->release();
  }
  const auto it = std::ranges::find_if(slot.admitted, is_it);
  SLUICE_CHECK(it != slot.admitted.end(), "a stepped role ended an activation it did not hold");
  LaneActivation* const activation = *it;
  slot.admitted.erase(it);
  activation->end(std::move(outcome.result));
}

void Lane::stop() {
  for (LaneActivation* next = mailbox_.take(); next != nullptr;) {
    LaneActivation* const activation = next;
    next = next->next;
    queue_.push(activation);
  }
  for (; !queue_.empty(); queue_.append(caused_)) queue_.pop()->end(cancelled_before());
  for (Slot& slot : slots_) {
    for (LaneActivation* activation : slot.failed) activation->release();
    for (LaneActivation* activation : slot.admitted)
      activation->end(Error{ErrorCode::cancelled, "the runner has ended"});
  }
}

}  // namespace sluice
