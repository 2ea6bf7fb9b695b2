// When a process that died is started again: at once the first time, later and later when it does
// not stay, and rarely when it never does. Pure: time is an argument.
#pragma once

#include <algorithm>
#include <chrono>

namespace sluice::cli {

class Respawn {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds settled{10};  // it works: what was before is forgotten
  static constexpr unsigned deaths_most = 5;          // in a row: then it keeps failing
  static constexpr std::chrono::seconds rarely{60};

  void started(Time now) { started_ = now; }
  /// It has died: when to start it next.
  Time died(Time now) {
    if (now - started_ >= settled) deaths_ = 0, wait_ = {};
    if (++deaths_ >= deaths_most) return now + rarely;
    const Time next = now + wait_;
    wait_ = wait_ == wait_.zero() ? least : wait_ * 2;
    return next;
  }
  /// How often in a row it died within `settled` of its start, where that is too often; else 0.
  /// `runs`: it does now.
  unsigned failing(Time now, bool runs) const {
    const bool works = runs && now - started_ >= settled;
    return works || deaths_ < deaths_most ? 0 : deaths_;
  }

 private:
  static constexpr std::chrono::milliseconds least{100};

  Time started_{};
  std::chrono::milliseconds wait_{0};
  unsigned deaths_ = 0;
};

}  // namespace sluice::cli
