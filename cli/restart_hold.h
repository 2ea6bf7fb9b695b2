// Whether new calls wait for machines that come back. Pure: time is an argument.
//
// A machine is waited for from when its process died until a later life of it is there, but no
// longer than `patience`, and only while somebody starts it again. A machine that a life of this
// one has not met yet (it began anew with the keeper, and so do the others) is waited for as long
// as an earlier life of it could go unheard, a lease, and no longer than `patience`.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::cli {

class RestartHold {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RestartHold(std::size_t machines, std::chrono::milliseconds patience,
              std::chrono::milliseconds lease)
      : machines_(machines),
        lives_(machines, 0),
        meets_(machines),
        patience_(patience),
        lease_(lease) {}

  /// Its life `life` is there, in a process that lives.
  void lives(std::size_t machine, std::uint32_t life) {
    machines_[machine].reset();
    lives_[machine] = life;
  }
  /// Whether `life` may be in another process than the one that died: what was there while that
  /// lived was in that one.
  bool may_live(std::size_t machine, std::uint32_t life) const {
    return !is_dead(machine) || life > lives_[machine];
  }
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
  /// Whether to wait for one that this machine has not met in the life `life`: so long from when
  /// that is first asked.
  bool meets(std::size_t machine, std::uint32_t life, Time now) {
    std::optional<Meeting>& meeting = meets_[machine];
    if (!meeting || meeting->life != life) meeting = {life, now};
    return now - meeting->since < std::min(patience_, lease_);
  }

 private:
  struct Meeting {
    std::uint32_t life = 0;  // of this machine
    Time since{};
  };

  std::vector<std::optional<Time>> machines_;  // when its process died
  std::vector<std::uint32_t> lives_;           // the one that was there last
  std::vector<std::optional<Meeting>> meets_;
  std::chrono::milliseconds patience_, lease_;
};

}  // namespace sluice::cli
