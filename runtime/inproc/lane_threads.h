// The lanes of a process and the threads that run them: as many as lanes, and none of them a
// particular lane's.
//
// So a chain of short roles on idle lanes runs on one thread, one lane after the other, and costs
// one wake-up; roles that compute for long run at the same time; and a role that never returns
// holds its lane and no other. A thread without work looks for `spin`, then waits in the kernel.
// Thread: `make` and `run` before anything is pushed; `ready` from any. Owns: lanes and threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "runtime/inproc/lane.h"
#include "runtime/inproc/ready_lanes.h"

namespace sluice {

class LaneThreads {
 public:
  LaneThreads() = default;
  /// Waits for what runs; what has not begun ends cancelled, and so does what is admitted.
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  /// It lives as long as this.
  Lane& make();
  /// `threads`: those that roles of one lane may compute on; 0: all. Errors: exhausted.
  Result<void> run(std::uint32_t threads);
  /// The lane has work, and no thread.
  void ready(Lane& lane);

 private:
  struct Sleeper {
    std::condition_variable changed;
    bool woken = false;
  };

  void work(Sleeper& self, std::uint32_t threads);
  /// Waits for a lane that has work; null: they end.
  Lane* next(Sleeper& self);
  /// Until a lane waits, for `spin` at most.
  void look() const;
  void rest(Sleeper& self, std::unique_lock<std::mutex>& lock);
  /// One of those that sleep, out of the lock; null: nobody need be woken.
  Sleeper* to_wake(bool wakes);

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::thread> threads_;
  std::vector<std::unique_ptr<Sleeper>> sleepers_;  // by thread; whoever wakes one may be late
  std::mutex mutex_;
  ReadyLanes ready_{0};
  std::vector<Sleeper*> asleep_;  // the last to sleep wakes first: its memory is in the cache
  std::atomic<std::size_t> waiting_{0};  // lanes, for those that look without the lock
  std::atomic<bool> closing_{false};
};

}  // namespace sluice
