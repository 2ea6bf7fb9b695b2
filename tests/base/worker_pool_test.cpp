#include "base/worker_pool.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace sluice {
namespace {

/// How often each index came. Not atomic: a race here is a mistake of the pool's.
std::vector<std::uint8_t> times_of(WorkerPool& pool, std::size_t count, std::size_t most) {
  std::vector<std::uint8_t> times(count);
  pool.run(count, most, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) ++times[i];
  });
  return times;
}

/// The threads of a loop; it is not a Catch2 assertion, for these are for one thread.
std::set<std::thread::id> threads_of(WorkerPool& pool, std::size_t count, std::size_t most) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool.run(count, most, [&](std::size_t, std::size_t) {
    const std::lock_guard held(mutex);
    threads.insert(std::this_thread::get_id());
  });
  return threads;
}

/// Both halves of a loop of two are begun before either ends, so a worker must come.
void meet(WorkerPool& pool) {
  std::latch both(2);
  pool.run(2, 2, [&](std::size_t, std::size_t) { both.arrive_and_wait(); });
}

/// Tells others when the thread that made it sleeps in the kernel.
class CallerAsleep {
 public:
  void wait() const {
    while (!now()) std::this_thread::yield();
  }

 private:
  bool now() const {
    std::string line;
    std::getline(std::ifstream(file_), line);
    return line.compare(line.rfind(')') + 2, 1, "S") == 0;
  }
  const std::string file_ = "/proc/self/task/" + std::to_string(::gettid()) + "/stat";
};

/// A caller that stays in a loop of two until it is told.
struct HeldLoop {
  explicit HeldLoop(WorkerPool& pool, bool both)
      : caller([this, &pool, both] {
          const auto self = std::this_thread::get_id();
          pool.run(2, 2, [&](std::size_t, std::size_t) {
            begun.arrive_and_wait();
            if (both || std::this_thread::get_id() == self) release.wait();
          });
        }) {
    begun.wait();
  }
  ~HeldLoop() {
    release.count_down();
    caller.join();
  }
  std::latch begun{2}, release{1};
  std::thread caller;
};

TEST_CASE("each index of a loop comes once, for any numbers of indices and threads") {
  for (const std::size_t threads : {1, 2, 3, 8}) {
    WorkerPool pool(threads);
    CHECK(pool.threads() == threads);
    for (const std::size_t count : {0, 1, 2, 3, 17, 1000, 4096})
      for (const std::size_t most : {0, 1, 2, 5, 100}) {
        const auto times = times_of(pool, count, most);
        CHECK(std::ranges::count(times, 1) == static_cast<std::ptrdiff_t>(count));
      }
  }
}

TEST_CASE("workers come, also when they have slept or others have called") {
  WorkerPool pool(2);
  for (int i = 0; i < 1000; ++i) meet(pool);
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int j = 0; j < 200; ++j) (void)times_of(pool, 8, 2);
    });
  for (std::thread& caller : callers) caller.join();
  meet(pool);
}

TEST_CASE("a loop takes no more threads than it may") {
  WorkerPool pool(4);
  for (int i = 0; i < 200; ++i) {
    CHECK(threads_of(pool, 64, 2).size() <= 2);
    CHECK(threads_of(pool, 64, 1) == std::set{std::this_thread::get_id()});
  }
  // Two threads stay in a loop with parts left while other workers are awake beside them.
  std::latch begun(2), release(1);
  std::atomic<int> inside = 0, most = 0;
  std::thread caller([&] {
    pool.run(64, 2, [&](std::size_t, std::size_t) {
      most = std::max<int>(most, ++inside);
      if (!release.try_wait()) begun.arrive_and_wait();
      release.wait();
      --inside;
    });
  });
  begun.wait();
  for (int i = 0; i < 200; ++i) meet(pool);
  release.count_down();
  caller.join();
  CHECK(most == 2);
}

TEST_CASE("a loop inside a part stays on the part's thread") {
  WorkerPool pool(3);
  std::atomic<int> strangers = 0;
  std::vector<std::uint32_t> sums(32);
  CHECK(thread_limit() == WorkerPool::shared().threads());
  pool.run(sums.size(), 3, [&](std::size_t begin, std::size_t end) {
    const auto self = std::this_thread::get_id();
    if (thread_limit() != 1) ++strangers;
    for (std::size_t i = begin; i < end; ++i)
      pool.run(100, 3, [&](std::size_t from, std::size_t to) {
        if (std::this_thread::get_id() != self) ++strangers;
        for (; from < to; ++from) sums[i] += static_cast<std::uint32_t>(from);
      });
  });
  CHECK(strangers == 0);
  CHECK(std::ranges::count(sums, 4950) == 32);
  CHECK(thread_limit() == WorkerPool::shared().threads());
}

/// As if another process wanted the cores from now on.
void crowd_in(WorkerPool& pool) {
  const auto later = Crowd::Clock::now() + std::chrono::hours(1);
  pool.came_back(later, later + std::chrono::milliseconds(2));
}

TEST_CASE("spare workers come while others want the cores") {
  WorkerPool pool(2, 2);
  crowd_in(pool);
  for (int i = 0; i < 200; ++i) {
    std::latch all(4);
    pool.run(4, 2, [&](std::size_t, std::size_t) { all.arrive_and_wait(); });
  }
}

TEST_CASE("no spare worker comes to a loop that may not take all threads") {
  WorkerPool pool(3, 2);
  crowd_in(pool);
  for (int i = 0; i < 200; ++i) CHECK(threads_of(pool, 64, 2).size() <= 2);
  WorkerPool one(1, 3);
  crowd_in(one);
  CHECK(threads_of(one, 64, 1) == std::set{std::this_thread::get_id()});
}

TEST_CASE("a pool with spare workers gives what one without gives, whether others come or go") {
  WorkerPool pool(2, 2);
  for (int i = 0; i < 50; ++i) {
    if (i % 10 == 5) crowd_in(pool);
    const auto times = times_of(pool, 4096, 2);
    CHECK(std::ranges::count(times, 1) == 4096);
  }
}

TEST_CASE("a caller waits for parts that were begun, not for workers that do not come") {
  WorkerPool pool(2);
  const HeldLoop held(pool, true);  // its worker comes to no other loop meanwhile
  for (int i = 0; i < 100; ++i)
    CHECK(threads_of(pool, 64, 2) == std::set{std::this_thread::get_id()});
}

TEST_CASE("a caller that sleeps is woken by the end of the last part") {
  WorkerPool pool(2);
  const auto self = std::this_thread::get_id();
  const CallerAsleep sleeps;
  std::latch both(2);
  std::size_t ended = 0;
  pool.run(2, 2, [&](std::size_t, std::size_t) {
    both.arrive_and_wait();
    if (std::this_thread::get_id() == self) return;
    sleeps.wait();
    ended = 1;
  });
  CHECK(ended == 1);
}

TEST_CASE("while as many callers compute as there are cores, they get no worker") {
  WorkerPool pool(2);
  const HeldLoop held(pool, false);  // its worker is free again, soon or already
  const auto self = std::this_thread::get_id();
  std::atomic<int> strangers = 0;
  for (int i = 0; i < 100; ++i)
    pool.run(64, 2, [&](std::size_t, std::size_t) {
      if (std::this_thread::get_id() != self) ++strangers;
      for (int j = 0; j < 20; ++j) std::this_thread::yield();
    });
  CHECK(strangers == 0);
}

TEST_CASE("many callers at once each get their own loop's results, more of them than slots") {
  WorkerPool pool(3);
  std::vector<std::uint64_t> sums(24);
  std::vector<std::thread> callers;
  for (std::uint64_t& sum : sums)
    callers.emplace_back([&pool, &sum] {
      for (std::size_t i = 0; i < 300; ++i) {
        const auto times = times_of(pool, i, 3);
        sum += std::accumulate(times.begin(), times.end(), std::uint64_t{0});
      }
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(std::ranges::count(sums, 300 * 299 / 2) == 24);
}

TEST_CASE("pools come and go, used or not") {
  for (std::size_t i = 0; i < 200; ++i) {
    WorkerPool pool(1 + i % 4);
    if (i % 3 == 0) continue;
    const auto times = times_of(pool, 10 * i, 4);
    CHECK(std::ranges::count(times, 1) == static_cast<std::ptrdiff_t>(10 * i));
  }
}

/// A relay of loops with those numbers of indices. Not atomic, as above: what a loop wrote, `next`
/// and the loops behind it read.
struct Relay {
  explicit Relay(std::vector<std::size_t> loops) : counts(std::move(loops)) {}

  std::size_t next() {
    openers.insert(std::this_thread::get_id());
    if (!times.empty()) whole = whole && std::ranges::count(times, 1) == std::ssize(times);
    if (opened == counts.size()) return 0;
    times.assign(counts[opened], 0);
    return counts[opened++];
  }
  void part(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) ++times[i];
  }
  void run(WorkerPool& pool, std::size_t most) {
    pool.relay(
        most, [this] { return next(); },
        [this](std::size_t begin, std::size_t end) { part(begin, end); });
  }
  bool done() const { return whole && opened == counts.size(); }

  std::vector<std::size_t> counts;
  std::vector<std::uint8_t> times;
  std::set<std::thread::id> openers;
  std::size_t opened = 0;
  bool whole = true;
};

TEST_CASE("a relay's loops come one behind the other, each index once") {
  for (const std::size_t threads : {1, 2, 3, 8}) {
    WorkerPool pool(threads);
    for (const std::size_t most : {0, 1, 2, 100})
      for (int run = 0; run < 50; ++run) {
        Relay relay({4, 1, 1, 100, 2, 1, 4096, 3, 1});
        relay.run(pool, most);
        CHECK(relay.done());
      }
    Relay none({});
    none.run(pool, 8);
    CHECK(none.done());
  }
}

TEST_CASE("loops of one index stay with whoever opens them") {
  WorkerPool pool(4);
  for (int run = 0; run < 100; ++run) {
    Relay relay(std::vector<std::size_t>(20, 1));
    relay.run(pool, 4);
    CHECK(relay.done());
    CHECK(relay.openers == std::set{std::this_thread::get_id()});
  }
}

TEST_CASE("a relay goes on while its caller sleeps") {
  WorkerPool pool(2);
  const auto self = std::this_thread::get_id();
  const CallerAsleep sleeps;
  std::size_t opened = 0;
  std::vector<std::thread::id> openers;
  std::latch both(2);
  pool.relay(
      2,
      [&]() -> std::size_t {
        openers.push_back(std::this_thread::get_id());
        return std::vector<std::size_t>{2, 1, 1, 0}[opened++];
      },
      [&](std::size_t, std::size_t) {
        if (opened != 1) return;
        both.arrive_and_wait();
        if (std::this_thread::get_id() != self) sleeps.wait();
      });
  REQUIRE(openers.size() == 4);
  CHECK(openers[0] == self);
  for (std::size_t i = 1; i < 4; ++i) CHECK(openers[i] != self);
}

TEST_CASE("a sleeping caller is woken by the next loop of its relay") {
  WorkerPool pool(2);
  const auto self = std::this_thread::get_id();
  const CallerAsleep sleeps;
  std::size_t opened = 0;
  std::latch first(2), second(2);
  pool.relay(
      2, [&]() -> std::size_t { return opened++ < 2 ? 2 : 0; },
      [&](std::size_t, std::size_t) {
        (opened == 1 ? first : second).arrive_and_wait();  // the caller has one of the two
        if (opened == 1 && std::this_thread::get_id() != self) sleeps.wait();
      });
  CHECK(opened == 3);
}

TEST_CASE(
    "what a part or the way to the next loop throws comes to the caller, and ends the relay") {
  WorkerPool pool(2);
  const auto self = std::this_thread::get_id();
  for (const bool by_caller : {true, false}) {
    std::latch both(2);
    CHECK_THROWS_WITH(pool.run(2, 2,
                               [&](std::size_t, std::size_t) {
                                 both.arrive_and_wait();
                                 if ((std::this_thread::get_id() == self) == by_caller)
                                   throw std::runtime_error("a part");
                               }),
                      "a part");
    meet(pool);
  }
  for (std::size_t threads : {1, 2}) {
    std::size_t opened = 0, parts = 0;
    CHECK_THROWS_WITH(pool.relay(
                          threads,
                          [&]() -> std::size_t {
                            if (++opened == 3) throw std::runtime_error("the way");
                            return 1;
                          },
                          [&](std::size_t, std::size_t) { ++parts; }),
                      "the way");
    CHECK(opened == 3);
    CHECK(parts == 2);
    meet(pool);
  }
  std::atomic<int> begun = 0;
  CHECK_THROWS_AS(pool.run(1000, 2,
                           [&](std::size_t, std::size_t) {
                             ++begun;
                             throw 1;
                           }),
                  int);
  CHECK(begun <= 2);                                        // one for each thread
  CHECK(thread_limit() == WorkerPool::shared().threads());  // the caller is in no part
}

TEST_CASE("a relay inside a part stays on the part's thread") {
  WorkerPool pool(3);
  std::atomic<int> wrong = 0;
  pool.run(32, 3, [&](std::size_t, std::size_t) {
    Relay relay({5, 1, 64});
    relay.run(pool, 3);
    if (!relay.done() || relay.openers != std::set{std::this_thread::get_id()}) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("many relays at once, more of them than places, and loops beside them") {
  for (std::size_t threads : {2, 4}) {
    WorkerPool pool(threads);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> callers;
    for (std::size_t caller = 0; caller < 20; ++caller)
      callers.emplace_back([&, caller] {
        for (std::size_t i = 0; i < 100; ++i) {
          Relay relay({8, 1, caller + 1, 2, 50});
          relay.run(pool, 1 + caller % 3);
          if (!relay.done()) ++wrong;
          if (std::ranges::count(times_of(pool, i, 3), 1) != static_cast<std::ptrdiff_t>(i))
            ++wrong;
        }
      });
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("a thread's limit is its own") {
  const std::size_t all = thread_limit();
  limit_threads(1);
  CHECK(thread_limit() == 1);
  std::size_t others = 0;
  std::thread([&] { others = thread_limit(); }).join();
  CHECK(others == all);
  limit_threads(100'000);
  CHECK(thread_limit() == all);
  limit_threads(0);
  CHECK(thread_limit() == all);
}

#if !defined(__SANITIZE_THREAD__)  // which knows only forks that begin another program
/// What a child made of it; 0: well.
template <typename Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) work();
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_CASE("a fork's child has a shared pool of its own, and loops of others alone") {
  WorkerPool other(3);
  meet(other);
  if (WorkerPool::shared().threads() > 1) meet(WorkerPool::shared());
  CHECK(in_child([&] {
          if (WorkerPool::shared().threads() > 1) meet(WorkerPool::shared());
          const auto times = times_of(WorkerPool::shared(), 1000, 8);
          const auto alone = threads_of(other, 64, 3);
          ::_exit(std::ranges::count(times, 1) == 1000 && alone.size() == 1 ? 0 : 1);
        }) == 0);
  meet(other);
}

TEST_CASE("the shared pool is for the cores that its process is bound to") {
  CHECK(in_child([] {
          cpu_set_t mine, one;
          CPU_ZERO(&mine);
          CPU_ZERO(&one);
          if (::sched_getaffinity(0, sizeof mine, &mine) != 0) ::_exit(1);
          std::size_t first = 0;
          while (!CPU_ISSET(first, &mine)) ++first;
          CPU_SET(first, &one);
          if (::sched_setaffinity(0, sizeof one, &one) != 0) ::_exit(2);
          ::_exit(WorkerPool::shared().threads() == 1 ? 0 : 3);
        }) == 0);
}

TEST_CASE("a process ends while its workers wait") {
  CHECK(in_child([] {
          (void)times_of(WorkerPool::shared(), 1000, 8);
          std::exit(0);
        }) == 0);
}
#endif

}  // namespace
}  // namespace sluice
