// When a worker should give its core away by itself: between two parts of a loop, before the system
// takes it in the middle of one.
//
// A worker that loses its core amid a part keeps the whole loop waiting for as long as another
// process has the core, some milliseconds. One that gives it away between two parts keeps nobody:
// the loop's other threads take what is left. Where nobody wants the core it is back at once.
// In a relay (base/worker_pool.h) the caller does the same. Thread: none of its own; a worker or a
// caller has its own. Time is an argument.
#pragma once

#include <chrono>

namespace sluice {

class TimeSlice {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  /// What systems give before they look whether others wait is 3 to 4 ms. With slices of 5 ms a
  /// pool gets a fifth less of its cores beside busy processes; of 1 to 3.5 ms none stands out
  /// (bench/results/2026-11-28.md).
  static constexpr std::chrono::microseconds most{3000};
  /// Between the ends of two parts: longer than parts take, shorter than what another process
  /// gets. Longer parts look the same; a worker that has only such never gives its core away.
  static constexpr std::chrono::microseconds away{700};

  explicit TimeSlice(Time now) : began_(now), last_(now) {}

  /// A part has ended. True: now is the time, and `begin` has to follow.
  bool is_over(Time now) {
    if (now - last_ > away) began_ = now;
    last_ = now;
    return now - began_ > most;
  }
  /// The core has been given away and is back.
  void begin(Time now) { began_ = last_ = now; }

 private:
  Time began_, last_;
};

}  // namespace sluice
