// Whether new calls wait for machines that are being started again. Pure: time is an argument.
//
// A machine is waited for from when its process died until a later life of it is there, but no
// longer than `patience`, and only while somebody starts it again.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

namespace sluice::cli {

class RestartHold {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RestartHold(std::size_t machines, std::chrono::milliseconds patience)
      : machines_(machines), patience_(patience) {}

  /// It is there, in a process that lives.
  void lives(std::size_t machine) { machines_[machine].reset(); }
  /// The process of the life that was there has died. No news of one that is waited for.
  void died(std::size_t machine, Time now) {
    if (!machines_[machine]) machines_[machine] = now;
  }
  bool is_dead(std::size_t machine) const { return machines_[machine].has_value(); }
  /// Whether to wait for it. `again`: somebody starts it again.
  bool waits(std::size_t machine, bool again, Time now) const {
    const auto& died = machines_[machine];
    return died && again && now - *died < patience_;
  }

 private:
  std::vector<std::optional<Time>> machines_;  // when its process died
  std::chrono::milliseconds patience_;
};

}  // namespace sluice::cli
