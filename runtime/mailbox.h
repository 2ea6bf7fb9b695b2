// The one thing that threads share: a queue with a lock. Everything else belongs to one loop.
//
// Thread: any thread pushes, one thread takes. Cost: one lock per batch on the taking side.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

template <typename T>
class Mailbox {
 public:
  void push(T item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    filled_.notify_one();
  }

  /// Swaps out everything that is there, in order; `batch` must be empty.
  void take(std::vector<T>& batch) {
    const std::lock_guard lock(mutex_);
    batch.swap(items_);
  }

  /// Like `take`, but waits for the first item, or until `deadline` when there is one.
  void wait_and_take(std::vector<T>& batch,
                     std::optional<std::chrono::steady_clock::time_point> deadline = {}) {
    std::unique_lock lock(mutex_);
    const auto filled = [this] { return !items_.empty(); };
    if (deadline.has_value())
      filled_.wait_until(lock, *deadline, filled);
    else
      filled_.wait(lock, filled);
    batch.swap(items_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<T> items_;
};

}  // namespace sluice
