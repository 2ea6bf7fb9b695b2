// The one thing that threads share: items that any thread pushes and one takes, all at once.
//
// Items are linked through their own `next`, so pushing allocates nothing. Thread: any pushes; one
// at a time takes. Cost: an exchange a batch.
#pragma once

#include <atomic>
#include <chrono>

namespace sluice {

/// How long a thread looks for what is about to come before it waits in the kernel.
inline constexpr std::chrono::microseconds spin{20};

template <typename T>
class Mailbox {
 public:
  /// One item, or several linked from the newest to the oldest. True: it was empty.
  bool push(T* newest, T* oldest) {
    T* before = head_.load(std::memory_order_relaxed);
    do {
      oldest->next = before;
    } while (!head_.compare_exchange_weak(before, newest));
    return before == nullptr;
  }
  void push(T* item) { push(item, item); }
  bool empty() const { return head_.load() == nullptr; }

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

 private:
  std::atomic<T*> head_{nullptr};
};

}  // namespace sluice
