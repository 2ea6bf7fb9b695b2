#include "base/worker_pool.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <mutex>
#include <numeric>
#include <set>
#include <string>

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

TEST_CASE("a caller waits for parts that were begun, not for workers that do not come") {
  WorkerPool pool(2);
  const HeldLoop held(pool, true);  // its worker comes to no other loop meanwhile
  for (int i = 0; i < 100; ++i)
    CHECK(threads_of(pool, 64, 2) == std::set{std::this_thread::get_id()});
}

TEST_CASE("a caller that sleeps is woken by the end of the last part") {
  WorkerPool pool(2);
  const auto self = std::this_thread::get_id();
  const std::string file = "/proc/self/task/" + std::to_string(::gettid()) + "/stat";
  const auto sleeps = [&] {
    std::string line;
    std::getline(std::ifstream(file), line);
    return line.compare(line.rfind(')') + 2, 1, "S") == 0;
  };
  std::latch both(2);
  std::size_t ended = 0;
  pool.run(2, 2, [&](std::size_t, std::size_t) {
    both.arrive_and_wait();
    if (std::this_thread::get_id() == self) return;
    while (!sleeps()) std::this_thread::yield();
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
