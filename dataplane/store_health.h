// Whether a store that failed is tried again: off for a while that doubles with each failure.
//
// Units: nanoseconds of a clock that only rises. Thread: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

class StoreHealth {
 public:
  static constexpr std::int64_t first_pause = 30'000'000'000;
  static constexpr std::int64_t longest_pause = 600'000'000'000;

  /// Why it is off; empty: it works, or is tried again.
  const std::string& reason() const { return reason_; }
  bool works() const { return reason_.empty(); }
  /// Whether it may be used now; off: once in a while, to see whether it works again.
  bool may_try(std::int64_t now) {
    if (works()) return true;
    if (now < retry_) return false;
    retry_ = now + pause_;
    return true;
  }
  void failed(std::int64_t now, std::string why) {
    pause_ = works() ? first_pause : std::min(2 * pause_, longest_pause);
    retry_ = now + pause_;
    reason_ = std::move(why);
    ++failures_;
  }
  void worked() { reason_.clear(); }
  std::uint64_t failures() const { return failures_; }

 private:
  std::string reason_;
  std::int64_t pause_ = first_pause, retry_ = 0;
  std::uint64_t failures_ = 0;
};

}  // namespace sluice
