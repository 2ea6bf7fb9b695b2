// Where a lane waits until what it runs may go on, and is told that something about that changed.
//
// Each lane has its own, so of thousands that wait only those are woken which the news is for.
// Thread: any. Cost: two atomic accesses where nobody waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace sluice {

class LaneEar {
 public:
  /// Until `done`, which is called without a lock, and again behind each `wake`.
  template <typename Done>
  void wait(const Done& done) {
    waiting_.fetch_add(1);
    for (;;) {
      const std::uint64_t seen = news_.load();
      // Whoever changes something from here on sees that somebody waits, or is seen by `done`.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (done()) break;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return news_.load() != seen; });
    }
    waiting_.fetch_sub(1);
  }
  /// Something has changed: who waits looks again.
  void wake() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (waiting_.load() == 0) return;
    {
      const std::lock_guard lock(mutex_);
      news_.fetch_add(1);
    }
    changed_.notify_all();
  }

 private:
  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint64_t> news_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace sluice
