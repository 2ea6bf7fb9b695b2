// The one thing that threads share: items that any thread pushes and one takes, all at once.
//
// Items are linked through their own `next`, so pushing allocates nothing. Thread: any pushes; one
// at a time takes. Cost: an exchange a batch; a push wakes the taker only where it waits, which it
// does in the kernel after `spin` of looking.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace sluice {

/// How long a thread looks for what is about to come before it waits in the kernel.
inline constexpr std::chrono::microseconds spin{20};

template <typename T>
class Mailbox {
 public:
  /// One item, or several linked from the newest to the oldest.
  void push(T* newest, T* oldest) {
    T* before = head_.load(std::memory_order_relaxed);
    do {
      oldest->next = before;
    } while (!head_.compare_exchange_weak(before, newest));
    if (before == nullptr && waits_.load()) wake();
  }
  void push(T* item) { push(item, item); }

  /// Everything that is there, linked from the oldest; null: nothing.
  T* take() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    T* newest = head_.exchange(nullptr);
    T* oldest = nullptr;
    while (newest != nullptr) {
      T* before = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = before;
    }
    return oldest;
  }

  /// Like `take`, but waits; null only when the mailbox is closed and empty.
  T* wait_and_take() {
    const auto until = std::chrono::steady_clock::now() + spin;
    do {
      for (int i = 0; i < 32; ++i) {
        if (T* items = take()) return items;
        __builtin_ia32_pause();
      }
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < until && !closed_.load());
    std::unique_lock lock(mutex_);
    waits_.store(true);
    changed_.wait(lock, [this] { return head_.load() != nullptr || closed_.load(); });
    waits_.store(false);
    return take();
  }

  /// Nothing will be pushed any more.
  void close() {
    closed_.store(true);
    wake();
  }
  bool closed() const { return closed_.load(); }

 private:
  void wake() {
    // Whoever is about to wait looks once more under the lock.
    { const std::lock_guard lock(mutex_); }
    changed_.notify_one();
  }

  std::atomic<T*> head_{nullptr};
  std::atomic<bool> waits_{false};
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace sluice
