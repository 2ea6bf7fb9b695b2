// When a process that died is started again: at once the first time, later and later when it does
// not stay. Pure: time is an argument.
#pragma once

#include <algorithm>
#include <chrono>

namespace sluice::cli {

class Respawn {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void started(Time now) { started_ = now; }
  /// It has died: when to start it next.
  Time died(Time now) {
    if (now - started_ >= settled) wait_ = {};
    const Time next = now + wait_;
    wait_ = wait_ == wait_.zero() ? least : std::min(wait_ * 2, most);
    return next;
  }

 private:
  static constexpr std::chrono::milliseconds least{100};
  static constexpr std::chrono::milliseconds most{5000};
  static constexpr std::chrono::seconds settled{10};  // it works: what was before is forgotten

  Time started_{};
  std::chrono::milliseconds wait_{0};
};

}  // namespace sluice::cli
