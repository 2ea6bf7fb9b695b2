#include "runtime/inproc/lane_threads.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/make_thread.h"
#include "base/worker_pool.h"
#include "runtime/mailbox.h"

namespace sluice {

LaneThreads::~LaneThreads() {
  {
    const std::lock_guard lock(mutex_);
    closing_.store(true);
    for (Sleeper* sleeper : asleep_) sleeper->changed.notify_one();
  }
  for (std::thread& thread : threads_) thread.join();
  for (const auto& lane : lanes_) lane->stop();
}

Lane& LaneThreads::make() {
  lanes_.push_back(std::make_unique<Lane>(*this));
  return *lanes_.back();
}

Result<void> LaneThreads::run(std::uint32_t threads) {
  ready_ = ReadyLanes(lanes_.size());
  asleep_.reserve(lanes_.size());
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Sleeper& self = *sleepers_.emplace_back(std::make_unique<Sleeper>());
    Result<std::thread> made =
        make_thread("lane " + std::to_string(i + 1) + " of " + std::to_string(lanes_.size()),
                    [this, &self, threads] { work(self, threads); });
    if (!made.ok()) return made.error();
    threads_.push_back(std::move(made).value());
  }
  return {};
}

void LaneThreads::ready(Lane& lane) {
  Sleeper* woken = nullptr;
  {
    const std::lock_guard lock(mutex_);
    woken = to_wake(ready_.add(&lane));
    waiting_.store(ready_.waiting(), std::memory_order_relaxed);
  }
  if (woken != nullptr) woken->changed.notify_one();
}

LaneThreads::Sleeper* LaneThreads::to_wake(bool wakes) {
  if (!wakes) return nullptr;
  Sleeper* const woken = asleep_.back();
  asleep_.pop_back();
  woken->woken = true;
  return woken;
}

void LaneThreads::work(Sleeper& self, std::uint32_t threads) {
  limit_threads(threads);
  while (Lane* const lane = next(self)) lane->work(closing_);
}

Lane* LaneThreads::next(Sleeper& self) {
  std::unique_lock lock(mutex_);
  for (bool looked = false; !closing_.load(std::memory_order_relaxed); looked = true) {
    if (Lane* const lane = ready_.take()) {
      waiting_.store(ready_.waiting(), std::memory_order_relaxed);
      Sleeper* const woken = to_wake(ready_.wakes());
      lock.unlock();
      if (woken != nullptr) woken->changed.notify_one();
      return lane;
    }
    if (looked || !ready_.search()) rest(self, lock);
    if (closing_.load(std::memory_order_relaxed)) break;
    lock.unlock();
    look();
    lock.lock();
    ready_.end_search();
  }
  return nullptr;
}

void LaneThreads::rest(Sleeper& self, std::unique_lock<std::mutex>& lock) {
  ready_.rest();
  asleep_.push_back(&self);
  self.changed.wait(lock, [&] { return self.woken || closing_.load(); });
  self.woken = false;
}

void LaneThreads::look() const {
  const auto until = std::chrono::steady_clock::now() + spin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (waiting_.load(std::memory_order_relaxed) != 0 || closing_.load()) return;
      __builtin_ia32_pause();
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < until);
}

}  // namespace sluice
