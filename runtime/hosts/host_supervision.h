// When a role host that died is started again, and when not for a while. Pure: time is an argument.
//
// At once the first time, later and later when it does not stay; after more deaths in a window than
// are allowed it is refused for some time, and then has one trial. Thread: its owner's.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>

namespace sluice::hosts {

struct SupervisionRules {
  std::chrono::milliseconds least{100};       // the first wait that is one; then twice as long
  std::chrono::milliseconds most{5'000};      // and never longer
  std::chrono::milliseconds settled{10'000};  // that long alive, and earlier waits are forgotten
  std::size_t deaths_max = 5;                 // within the window; one more and it is refused
  std::chrono::milliseconds window{60'000};
  std::chrono::milliseconds refusal{30'000};
};

class HostSupervision {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class State {
    down,    // starts when `next` has come
    begins,  // a process is there, and its roles are being made
    serves,
    refused,  // too many deaths: it starts when `next` has come, and until then nobody waits for it
  };

  explicit HostSupervision(SupervisionRules rules = {}) : rules_(rules) {}

  State state() const { return state_; }
  /// When to start it; requires `down` or `refused`.
  Time next() const { return next_; }
  bool is_due(Time now) const {
    return (state_ == State::down || state_ == State::refused) && next_ <= now;
  }
  /// Deaths that count against it now.
  std::size_t deaths() const { return deaths_.size(); }

  void started(Time now) {
    state_ = State::begins;
    started_ = now;
  }
  void serves() { state_ = State::serves; }
  /// Or it could not be started.
  void died(Time now) {
    if (now - started_ >= rules_.settled) wait_ = {};
    next_ = now + wait_;
    wait_ = wait_ == wait_.zero() ? rules_.least : std::min(wait_ * 2, rules_.most);
    deaths_.push_back(now);
    while (now - deaths_.front() > rules_.window) deaths_.pop_front();
    state_ = State::down;
    if (deaths_.size() <= rules_.deaths_max) return;
    state_ = State::refused;
    next_ = std::max(next_, now + rules_.refusal);
    deaths_.pop_front();  // as many as are allowed: the next one refuses it again
  }

 private:
  SupervisionRules rules_;
  State state_ = State::down;
  Time next_{};  // at once
  Time started_{};
  std::chrono::milliseconds wait_{0};
  std::deque<Time> deaths_;
};

}  // namespace sluice::hosts
