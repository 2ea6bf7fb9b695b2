// A call as its caller knows it: one observer, told in order, and exactly one end.
//
// Whoever drives the engines delivers; the end may come from there, from the watch over deadlines
// or from a runner that is destroyed, and the first counts. An end that comes while an output is
// being told waits for that, without a lock. Thread: outputs from one thread at a time; the rest
// from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "graph/effect.h"
#include "graph/warnings.h"
#include "runtime/runner.h"

namespace sluice {

struct SessionRecord;

struct CallState final : Counted {
  CallState(CallObserver told, std::string session)
      : session_name(std::move(session)), observer_(std::move(told)) {}
  static void dispose(const CallState* call) { delete call; }

  const std::string session_name;
  SessionRecord* record = nullptr;
  std::size_t given_number = 0;          // by the caller, for the trace
  std::chrono::milliseconds deadline{};  // the sooner of its own and the workflow's
  mutable std::uint64_t key = 0;         // in the watch
  /// Of no other call of the workflows that run together. With other machines: the same on all.
  mutable std::uint64_t number = 0;
  mutable CallId id;                               // in the engines, known to whoever drives
  mutable std::atomic<bool> stopped{false};        // told to stop
  mutable std::atomic<bool> past_deadline{false};  // that is why

  /// False when the call has ended for its caller.
  bool tell(std::string_view output, const PayloadRef& value) const {
    if ((state_.fetch_or(telling) & ended_bit) != 0) return false;
    if (observer_.on_output) observer_.on_output(output, value);
    if ((state_.fetch_and(static_cast<std::uint8_t>(~telling)) & ended_bit) != 0) finish();
    return true;
  }
  /// For the outcome. Dropped when the call has ended for its caller.
  void warn(std::string warning) const {
    const std::lock_guard lock(warnings_mutex_);
    if (warnings_.size() < warnings_kept_max)
      warnings_.push_back(std::move(warning));
    else
      ++warnings_more_;
  }
  /// What was warned of since the last time, for a call whose outcome is made elsewhere.
  std::vector<std::string> new_warnings() const {
    const std::lock_guard lock(warnings_mutex_);
    std::vector<std::string> warnings = std::exchange(warnings_, {});
    if (const std::size_t more = std::exchange(warnings_more_, 0); more > 0)
      warnings.push_back(std::to_string(more) + " more warnings of roles");
    return warnings;
  }
  /// False when it has ended already.
  bool end(CallOutcome outcome) const {
    if (claimed_.exchange(true)) return false;
    outcome_ = std::move(outcome);
    take_warnings();
    if ((state_.fetch_or(ended_bit) & telling) == 0) finish();
    return true;
  }
  bool ended() const { return claimed_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint8_t telling = 1;
  static constexpr std::uint8_t ended_bit = 2;
  static constexpr std::size_t warnings_kept_max = 1000;

  void finish() const {
    if (observer_.on_end) observer_.on_end(std::move(outcome_));
    observer_ = {};  // lets go of what it captured
  }

  void take_warnings() const {
    const std::lock_guard lock(warnings_mutex_);
    if (warnings_.empty()) return;
    for (std::string& warning : counted(std::exchange(warnings_, {})))
      outcome_.warnings.push_back(std::move(warning));
    if (warnings_more_ > 0)
      outcome_.warnings.push_back(std::to_string(warnings_more_) + " more warnings of roles");
  }

  mutable CallObserver observer_;
  mutable CallOutcome outcome_;
  mutable std::mutex warnings_mutex_;
  mutable std::vector<std::string> warnings_;  // of roles
  mutable std::size_t warnings_more_ = 0;      // that were not kept
  mutable std::atomic<bool> claimed_{false};
  mutable std::atomic<std::uint8_t> state_{0};
};

}  // namespace sluice
