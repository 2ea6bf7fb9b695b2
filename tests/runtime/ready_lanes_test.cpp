// Who gets a lane, and who is woken: the bookkeeping under many orders of events.
#include "runtime/inproc/ready_lanes.h"

#include <catch2/catch.hpp>
#include <deque>

#include "base/random.h"

using namespace sluice;

namespace {

/// Only told apart by their addresses.
Lane* lane(std::size_t number) { return reinterpret_cast<Lane*>(64 * (number + 1)); }

/// As many threads as lanes, which do in any order what `LaneThreads` lets them do.
class Crowd {
 public:
  explicit Crowd(std::size_t lanes) : ready_(lanes), threads_(lanes), taken_(lanes, false) {}

  void step(SplitMix64& random) {
    if (random.next() % 3 == 0) return give(random.next() % taken_.size());
    act(threads_[random.next() % threads_.size()], random);
    check();
  }
  /// What is there runs out, whoever goes first.
  void finish(SplitMix64& random) {
    for (int i = 0; i < 10'000; ++i) act(threads_[random.next() % threads_.size()], random);
    check();
    CHECK(queued_.empty());
    CHECK(ready_.waiting() == 0);
  }

 private:
  enum class State { free, searching, asleep, runs };
  struct Thread {
    State state = State::free;
    std::size_t lane = 0;
  };

  void give(std::size_t number) {
    if (!taken_[number]) {
      taken_[number] = true;
      queued_.push_back(number);
      if (ready_.add(lane(number))) wake();
    }
    check();
  }
  void wake() {
    for (Thread& thread : threads_)
      if (thread.state == State::asleep) {
        thread.state = State::searching;
        return;
      }
    FAIL("somebody is to be woken, and nobody sleeps");
  }
  void act(Thread& thread, SplitMix64& random) {
    switch (thread.state) {
      case State::runs:
        if (random.next() % 2 == 0) return;
        taken_[thread.lane] = false;
        thread.state = State::free;
        return;
      case State::searching:
        ready_.end_search();
        return next(thread);
      case State::free:
        return next(thread);
      case State::asleep:
        return;
    }
  }
  /// All of it under the lock.
  void next(Thread& thread) {
    if (Lane* const taken = ready_.take()) {
      REQUIRE(!queued_.empty());
      CHECK(taken == lane(queued_.front()));  // the one that has waited longest
      thread.lane = queued_.front();
      thread.state = State::runs;
      queued_.pop_front();
      if (ready_.wakes()) wake();
    } else if (thread.state == State::free && ready_.search()) {
      thread.state = State::searching;
    } else {
      ready_.rest();
      thread.state = State::asleep;
    }
  }
  std::size_t in(State state) const {
    std::size_t count = 0;
    for (const Thread& thread : threads_) count += thread.state == state ? 1 : 0;
    return count;
  }
  void check() const {
    CHECK(ready_.waiting() == queued_.size());
    if (!queued_.empty() && in(State::searching) == 0) CHECK(in(State::asleep) == 0);
    CHECK(in(State::searching) <= 1);
  }

  ReadyLanes ready_;
  std::vector<Thread> threads_;
  std::vector<bool> taken_;  // by lane: it waits or runs
  std::deque<std::size_t> queued_;
};

}  // namespace

TEST_CASE("a lane waits only while a thread searches or none sleeps, in any order of events") {
  for (std::size_t lanes = 1; lanes <= 6; ++lanes)
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SplitMix64 random(seed * 100 + lanes);
      Crowd crowd(lanes);
      for (int i = 0; i < 500; ++i) crowd.step(random);
      crowd.finish(random);
    }
}

TEST_CASE("one wake-up is under way at a time, and who takes a lane sends the next") {
  ReadyLanes ready(3);
  for (int i = 0; i < 3; ++i) ready.rest();
  CHECK(ready.add(lane(0)));
  CHECK(!ready.add(lane(1)));  // whoever comes finds both
  CHECK(!ready.add(lane(2)));
  ready.end_search();
  CHECK(ready.take() == lane(0));
  CHECK(ready.wakes());
  CHECK(!ready.wakes());
  ready.end_search();
  CHECK(ready.take() == lane(1));
  CHECK(ready.wakes());
  ready.end_search();
  CHECK(ready.take() == lane(2));
  CHECK(!ready.wakes());
  CHECK(ready.take() == nullptr);
}
