// Which lanes wait for a thread, and when a thread that sleeps must be woken for them. Pure.
//
// A thread that has a lane runs it until the lane is empty, then takes the next that waits. One
// that finds none searches for a while; one searches at a time, the others sleep. While somebody
// searches, a lane that gets work wakes nobody: the searcher takes it, or the thread that gave the
// work and is done sooner. Rule: a lane waits only while a thread searches or none sleeps.
// Thread: the owner's lock. Bounds: each lane at most once.
// Source: the scheduler of Go (Vyukov, 2012): at most one wake-up is under way.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice {

class Lane;

class ReadyLanes {
 public:
  explicit ReadyLanes(std::size_t lanes) : ring_(lanes) {}

  std::size_t waiting() const { return waiting_; }

  /// It has work and no thread. True: wake one that sleeps; it searches from now on.
  [[nodiscard]] bool add(Lane* lane) {
    ring_[(first_ + waiting_++) % ring_.size()] = lane;
    return wakes();
  }
  /// The lane that has waited longest; null: none waits.
  Lane* take() {
    if (waiting_ == 0) return nullptr;
    Lane* const lane = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --waiting_;
    return lane;
  }
  /// True: this thread searches; false: another does.
  [[nodiscard]] bool search() { return searching_ == 0 && ++searching_ != 0; }
  /// Before it takes what it has found, or rests.
  void end_search() { --searching_; }
  /// This thread waits in the kernel from now on.
  void rest() { ++asleep_; }
  /// For what still waits when a thread has taken a lane: as `add` says.
  [[nodiscard]] bool wakes() {
    if (waiting_ == 0 || searching_ != 0 || asleep_ == 0) return false;
    --asleep_;
    ++searching_;
    return true;
  }

 private:
  std::vector<Lane*> ring_;
  std::size_t first_ = 0;
  std::size_t waiting_ = 0;
  std::size_t searching_ = 0;  // also who was woken and has not come yet
  std::size_t asleep_ = 0;
};

}  // namespace sluice
