#include "base/turns.h"

#include <catch2/catch.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"

namespace sluice {
namespace {

/// Threads that go through loops step by step, in any order of their steps.
class Turners {
 public:
  struct Outcome {
    std::vector<std::vector<int>> times;  // [loop][index]: how often it was done
    std::size_t openers = 0, refused = 0, helpers_most = 0;
    bool in_order = true;  // no part of a loop was taken before all of the one before were over
  };

  Turners(std::vector<std::uint32_t> counts, std::uint32_t threads)
      : counts_(std::move(counts)), states_(threads) {
    for (const std::uint32_t count : counts_) outcome_.times.emplace_back(count);
    turns_.open(counts_[0]);
  }

  /// `pick(n)` is below n. Thread 0 is the caller, the others join as helpers.
  template <typename Pick>
  Outcome run(const Pick& pick) {
    while (outcome_.openers < counts_.size()) step(pick(states_.size()));
    return outcome_;
  }

 private:
  struct State {
    std::optional<Turns::Seen> seen;  // looked
    std::uint32_t part = 0;           // taken: indices before seen->left()
    std::optional<std::uint32_t> joined;
    bool opens = false;
  };

  void step(std::size_t thread) {
    State& state = states_[thread];
    if (state.opens) return open(state);
    if (state.part != 0) return end(state);
    if (!state.seen.has_value()) {
      state.seen = turns_.seen();
      if (state.seen->left() == 0) state.seen.reset();
      return;
    }
    take(state, thread != 0);
  }

  void take(State& state, bool helper) {
    const auto threads = static_cast<std::uint32_t>(states_.size());
    const bool joins = helper && state.joined != state.seen->number();
    const std::uint32_t part = state.seen->part(threads);
    const std::uint32_t number = state.seen->number();
    if (!turns_.take(*state.seen, part, joins)) {
      ++outcome_.refused;
      if (state.seen->left() == 0) state.seen.reset();
      return;
    }
    state.part = part;
    if (joins) state.joined = number;
    outcome_.helpers_most = std::max<std::size_t>(outcome_.helpers_most, turns_.seen().helpers());
    for (std::size_t loop = 0; loop < outcome_.openers; ++loop)
      for (const int times : outcome_.times[loop]) outcome_.in_order &= times == 1;
    outcome_.in_order &= number == outcome_.openers + 1;
  }

  void end(State& state) {
    std::vector<int>& times = outcome_.times[outcome_.openers];
    const std::uint32_t begin = counts_[outcome_.openers] - state.seen->left();
    for (std::uint32_t i = begin; i < begin + state.part; ++i) ++times[i];
    state.opens = turns_.end(state.part);
    state.part = 0;
    state.seen.reset();
  }

  void open(State& state) {
    state.opens = false;
    if (++outcome_.openers < counts_.size()) turns_.open(counts_[outcome_.openers]);
  }

  Turns turns_;
  std::vector<std::uint32_t> counts_;
  std::vector<State> states_;
  Outcome outcome_;
};

void check(const Turners::Outcome& outcome, std::size_t loops, std::size_t threads) {
  CHECK(outcome.openers == loops);
  CHECK(outcome.in_order);
  CHECK(outcome.helpers_most <= threads - 1);
  bool once = true;
  for (const std::vector<int>& loop : outcome.times)
    for (const int times : loop) once = once && times == 1;
  CHECK(once);
}

TEST_CASE("in any order of the threads' steps each index comes once, loop after loop") {
  SplitMix64 random(7);
  const auto below = [&](std::uint64_t n) { return static_cast<std::size_t>(random.next() % n); };
  std::size_t refused = 0;
  for (int run = 0; run < 2000; ++run) {
    const auto threads = static_cast<std::uint32_t>(1 + below(5));
    std::vector<std::uint32_t> counts(1 + below(6));
    for (std::uint32_t& count : counts) count = static_cast<std::uint32_t>(1 + below(40));
    const auto outcome = Turners(counts, threads).run(below);
    check(outcome, counts.size(), threads);
    refused += outcome.refused;
  }
  CHECK(refused > 1000);  // threads did meet
}

TEST_CASE("one thread goes through all loops while the others are away") {
  for (std::size_t present = 0; present < 3; ++present)
    check(Turners({5, 1, 17}, 3).run([&](std::size_t) { return present; }), 3, 3);
}

TEST_CASE("who saw a loop that is over gets nothing of the next one, though as much is left") {
  Turns turns;
  turns.open(4);
  Turns::Seen late = turns.seen();
  Turns::Seen first = late;
  REQUIRE(turns.take(first, 4, false));
  CHECK(turns.end(4));
  turns.open(4);
  CHECK_FALSE(turns.take(late, 1, true));
  CHECK(late.left() == 4);  // it is up to date
  CHECK(late.helpers() == 0);
  CHECK(turns.take(late, 1, true));
  CHECK(turns.seen().left() == 3);
  CHECK(turns.seen().helpers() == 1);
}

TEST_CASE("only the last of a loop's parts to end is told so") {
  Turns turns;
  turns.open(3);
  CHECK_FALSE(turns.end(1));
  CHECK_FALSE(turns.end(1));
  CHECK(turns.end(1));
}

TEST_CASE("the largest loop and all threads fit beside each other") {
  Turns turns;
  turns.open(Turns::count_most);
  for (std::uint32_t helper = 1; helper < Turns::threads_most; ++helper) {
    Turns::Seen seen = turns.seen();
    REQUIRE(turns.take(seen, 1, true));
  }
  CHECK(turns.seen().helpers() == Turns::threads_most - 1);
  CHECK(turns.seen().left() == Turns::count_most - (Turns::threads_most - 1));
  CHECK(turns.seen().number() == 1);
}

}  // namespace
}  // namespace sluice
