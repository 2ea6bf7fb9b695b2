// Whether new calls wait for machines that are being started again. Pure: time is an argument.
//
// A machine is waited for from when its process died until a later life of it is there, but no
// longer than `patience`, and only while somebody starts it again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::cli {

class RestartHold {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RestartHold(std::size_t machines, std::chrono::milliseconds patience)
      : machines_(machines), patience_(patience) {}

  /// This life of it is there, in a process that lives.
  void lives(std::size_t machine, std::uint32_t incarnation) {
    machines_[machine] = {incarnation, {}};
  }
  /// The process of the life that was told last has died. No news of one that is waited for.
  void died(std::size_t machine, Time now) {
    if (!machines_[machine].died) machines_[machine].died = now;
  }
  bool is_dead(std::size_t machine) const { return machines_[machine].died.has_value(); }
  /// The life that was told last; 0: none yet.
  std::uint32_t life(std::size_t machine) const { return machines_[machine].life; }
  /// Whether to wait for it. `again`: somebody starts it again.
  bool waits(std::size_t machine, bool again, Time now) const {
    const auto& died = machines_[machine].died;
    return died && again && now - *died < patience_;
  }

 private:
  struct Machine {
    std::uint32_t life = 0;
    std::optional<Time> died;
  };
  std::vector<Machine> machines_;
  std::chrono::milliseconds patience_;
};

}  // namespace sluice::cli
