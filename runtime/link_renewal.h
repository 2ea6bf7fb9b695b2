// When a machine's links are begun anew because one of them has ended.
//
// A link that ended (what was owed outgrew its window, a parcel was wrong) stays so for both lives.
// Then one side comes in a next life, and with it all its links; that costs the others what is
// under way, so it waits for longer each time, and the side that is dialed for four times as long:
// one is enough. Pure. Thread: one. Units: nanoseconds of a clock that only rises.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

namespace sluice {

/// A life of this machine's links that others take, who take none up to `over`: it has begun anew
/// behind a clock that was set back. A step is bounded, so that nobody's word uses the numbers up.
inline std::uint32_t life_behind(std::uint32_t life, std::uint32_t over) {
  constexpr std::uint64_t step_most = 1U << 16U;  // hours of a clock
  const std::uint64_t wanted = std::max<std::uint64_t>(life, std::uint64_t{over} + 1) + 1;
  const std::uint64_t next = std::min({wanted, life + step_most, std::uint64_t{~0U}});
  return static_cast<std::uint32_t>(next);
}

class LinkRenewal {
 public:
  using Instant = std::chrono::nanoseconds;
  static constexpr Instant pause_most = std::chrono::seconds(60);
  static constexpr Instant calm = std::chrono::minutes(10);  // then it begins with the first pause

  LinkRenewal(std::uint32_t self, Instant first_pause) : self_(self), first_(first_pause) {}

  /// The link to this machine has ended.
  void ended(std::uint32_t machine, Instant now) {
    if (began_.has_value() && now - *began_ > calm) pause_ = first_;
    waiting_.emplace(machine, now);
  }
  /// It is connected again: the other side was quicker.
  void met(std::uint32_t machine) { waiting_.erase(machine); }
  /// When all links are to be begun anew; none: nothing has ended.
  std::optional<Instant> due() const {
    std::optional<Instant> due;
    for (const auto& [machine, since] : waiting_) {
      const Instant at = since + (machine < self_ ? pause_ : 4 * pause_);
      due = std::min(due.value_or(at), at);
    }
    return due;
  }
  /// They were, or could not be. `pause` is twice as long from now on.
  void begun(Instant now, bool could) {
    pause_ = std::min(2 * pause_, pause_most);
    began_ = now;
    for (auto& [machine, since] : waiting_) since = now;
    if (could) waiting_.clear();
  }

 private:
  std::uint32_t self_;
  Instant first_, pause_ = first_;
  std::optional<Instant> began_;
  std::map<std::uint32_t, Instant> waiting_;  // since when
};

}  // namespace sluice
