// Whether other processes want the cores of a pool, told by what its threads see when they give
// theirs away.
//
// A scheduler divides cores among threads that want to run, not among processes: beside one busy
// process two threads on two cores get 1.33 cores, eight get 1.78. So while others want its cores a
// pool lets more threads compute (base/worker_pool.h); what those cost each other does not pay
// while nobody does. The pool's own threads take turns while there are more than cores, and look
// like others; that is why a crowd is over after a while and has to be seen once more, by fewer
// threads. Thread: any. Time is an argument.
#pragma once

#include <atomic>
#include <chrono>

namespace sluice {

class Crowd {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  /// A busy process takes a core for some milliseconds; what takes it for less slows nobody much.
  static constexpr std::chrono::microseconds away_least{1000};
  /// How long a crowd is believed in, and then how long threads that are to leave may be seen.
  static constexpr std::chrono::milliseconds lasts{200}, leaving{10};

  bool is_here() const { return here_.load(std::memory_order_relaxed); }

  /// A thread gave its core away and has it back.
  void came_back(Time gave, Time back) {
    const auto at = back.time_since_epoch().count();
    if (is_here()) {
      if (at > until_.load(std::memory_order_relaxed)) end(back);
    } else if (back - gave > away_least && at > until_.load(std::memory_order_relaxed)) {
      until_.store((back + lasts).time_since_epoch().count(), std::memory_order_relaxed);
      here_.store(true, std::memory_order_relaxed);
    }
  }

 private:
  void end(Time now) {
    until_.store((now + leaving).time_since_epoch().count(), std::memory_order_relaxed);
    here_.store(false, std::memory_order_relaxed);
  }

  std::atomic<bool> here_{false};
  std::atomic<Time::rep> until_{Time::min().time_since_epoch().count()};
};

}  // namespace sluice
