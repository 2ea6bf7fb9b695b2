#include "base/worker_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/time_slice.h"

namespace sluice {

namespace {

/// Longer than what a decoder does between two products, shorter than a wake-up is worth; and while
/// there are more threads than cores, when who spins may keep a part's thread from its core.
constexpr std::chrono::microseconds spin_most{40}, spin_crowded{10};
/// Where there are fewer cores, so many threads are there for them beside other processes: one busy
/// process then takes a ninth of what they would get, three take less than a third.
constexpr std::size_t crowded_least = 8;
/// Place::news: besides, each loop that is opened adds `one_loop`.
constexpr std::uint32_t over = 1, sleeps = 2, one_loop = 4;

thread_local bool in_part = false;
thread_local std::size_t limit = 0;  // of this thread's loops; 0: none

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Until `ready()`, for `most` at most. False: not yet.
template <typename Ready>
bool spin_until(const Ready& ready, std::chrono::microseconds most) {
  constexpr int looks = 16;  // at what is awaited, for each at the clock
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < looks; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() - start < most);
  return ready();
}

/// Sleeps while `word` holds `value`; may return early.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(const std::atomic<std::uint32_t>& word, std::size_t most) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE,
            static_cast<int>(std::min<std::size_t>(most, INT_MAX)), nullptr, nullptr, 0);
}

}  // namespace

WorkerPool::WorkerPool(std::size_t threads, std::size_t spares)
    : threads_(std::max<std::size_t>(threads, 1)), spares_(threads_ > 1 ? spares : 0) {
  workers_.reserve(workers_most());
  awake_ = static_cast<std::uint32_t>(threads_ - 1);
  for (std::size_t i = 1; i < threads_; ++i) workers_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(workers_mutex_);
    ending_ = true;
  }
  ++opened_;
  wake_workers(workers_.size());
  for (std::thread& worker : workers_) worker.join();
}

/// Once. Where no more threads can be had, those that are there do.
void WorkerPool::add_spares() {
  if (spares_added_.load(std::memory_order_relaxed) || spares_added_.exchange(true)) return;
  const std::lock_guard lock(workers_mutex_);
  if (ending_) return;
  try {
    while (workers_.size() < workers_most()) {
      awake_.fetch_add(1);
      workers_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error&) {
    awake_.fetch_sub(1);
  }
}

std::chrono::microseconds WorkerPool::spin() const {
  return wanted() > threads_ ? spin_crowded : spin_most;
}

void WorkerPool::run(std::size_t count, std::size_t threads_most, const Work& work) {
  const std::size_t threads_here = std::min<std::size_t>(threads(), Turns::threads_most);
  const std::size_t most = std::min(threads_most, threads_here);
  const bool alone = most < 2 || in_part;
  count = run_here(count, alone ? count_most : 1, work);
  Place* place = count == 0 ? nullptr : take_place();
  if (place == nullptr) {
    (void)run_here(count, count_most, work);
    return;
  }
  place->work = work;
  place->threads.store(static_cast<std::uint32_t>(most), std::memory_order_relaxed);
  place->helpers.store(static_cast<std::uint32_t>(most < threads() ? most - 1 : workers_most()),
                       std::memory_order_relaxed);
  place->news.store(0, std::memory_order_relaxed);
  computing_.fetch_add(1, std::memory_order_relaxed);
  awake_.fetch_add(1);
  open(*place, count);
  in_part = true;
  for (;;) {
    const std::uint32_t seen = place->news.load(std::memory_order_acquire);
    if ((seen & over) != 0) break;
    take_parts(*place, work.next != nullptr);
    wait_for_news(*place, seen);
  }
  in_part = false;
  awake_.fetch_sub(1);
  computing_.fetch_sub(1, std::memory_order_relaxed);
  const std::exception_ptr thrown = std::exchange(place->thrown, nullptr);
  place->failed.store(false, std::memory_order_relaxed);
  place->taken.store(false, std::memory_order_release);
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

/// Runs loops of no more than `most` indices on this thread. Returns what the next one has; 0:
/// none.
std::size_t WorkerPool::run_here(std::size_t count, std::size_t most, const Work& work) {
  for (;;) {
    SLUICE_CHECK(count <= count_most, "a loop of too many indices");
    if (count == 0 || count > most) return count;
    work.part(work.body, 0, count);
    count = work.next != nullptr ? work.next(work.next_context) : 0;
  }
}

WorkerPool::Place* WorkerPool::take_place() {
  for (Place& place : places_)
    if (!place.taken.load(std::memory_order_relaxed) &&
        !place.taken.exchange(true, std::memory_order_acquire))
      return &place;
  return nullptr;
}

void WorkerPool::open(Place& place, std::size_t count) {
  place.count.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  place.turns.open(static_cast<std::uint32_t>(count));
  opened_.fetch_add(1, std::memory_order_seq_cst);
  const std::size_t most = std::min<std::size_t>(count - 1, place.helpers);
  const std::size_t awake = awake_.load(), all = wanted();
  if (most != 0 && awake < all) wake_workers(std::min(most, all - awake));
}

/// The caller's, until none is left to take.
void WorkerPool::take_parts(Place& place, bool gives_way) {
  thread_local TimeSlice slice(TimeSlice::Clock::now());
  for (Turns::Seen seen = place.turns.seen(); seen.left() != 0;) {
    const std::uint32_t part = seen.part(place.threads.load(std::memory_order_relaxed));
    if (!place.turns.take(seen, part, false)) continue;
    do_part(place, seen, part);
    if (slice.is_over(TimeSlice::Clock::now()) && gives_way) give_way(slice);
    seen = place.turns.seen();
  }
}

/// Gives the core away, and learns whether anybody wanted it.
void WorkerPool::give_way(TimeSlice& slice) {
  const auto gave = TimeSlice::Clock::now();
  ::sched_yield();
  const auto back = TimeSlice::Clock::now();
  slice.begin(back);
  came_back(gave, back);
}

void WorkerPool::came_back(Crowd::Time gave, Crowd::Time back) {
  crowd_.came_back(gave, back);
  if (wanted() > threads_) add_spares();
}

void WorkerPool::do_part(Place& place, Turns::Seen seen, std::uint32_t part) {
  const Work& work = place.work;
  const std::size_t begin = place.count.load(std::memory_order_relaxed) - seen.left();
  try {
    if (!place.failed.load(std::memory_order_relaxed)) work.part(work.body, begin, begin + part);
  } catch (...) {
    fail(place);
  }
  if (place.turns.end(part)) end_loop(place);
}

void WorkerPool::fail(Place& place) {
  if (!place.failed.exchange(true, std::memory_order_relaxed))
    place.thrown = std::current_exception();
}

/// By whoever has ended the last part; others look at `news`.
void WorkerPool::end_loop(Place& place) {
  std::size_t count = 0;
  try {
    const Work& work = place.work;
    if (work.next != nullptr && !place.failed.load(std::memory_order_relaxed))
      count = run_here(work.next(work.next_context), 1, work);
  } catch (...) {
    fail(place);
  }
  if (count != 0) open(place, count);
  std::uint32_t seen = place.news.load(std::memory_order_relaxed);
  const auto told = [&] { return (seen & ~sleeps) + (count != 0 ? one_loop : over); };
  while (!place.news.compare_exchange_weak(seen, told(), std::memory_order_acq_rel)) {
  }
  if ((seen & sleeps) != 0) wake(place.news, 1);
}

void WorkerPool::wait_for_news(Place& place, std::uint32_t seen) {
  const auto told = [&] { return place.news.load(std::memory_order_acquire) != seen; };
  if (told() || spin_until(told, spin())) return;
  if (!place.news.compare_exchange_strong(seen, seen | sleeps, std::memory_order_acq_rel)) return;
  while (place.news.load(std::memory_order_acquire) == (seen | sleeps))
    sleep_on(place.news, seen | sleeps);
}

void WorkerPool::wake_workers(std::size_t most) {
  std::uint32_t asleep = sleepers_.load(std::memory_order_seq_cst);
  std::uint32_t called = 0;
  do {
    called = static_cast<std::uint32_t>(std::min<std::size_t>(asleep, most));
    if (called == 0) return;
  } while (!sleepers_.compare_exchange_weak(asleep, asleep - called));
  awake_.fetch_add(called);  // from now on: the next loop calls others only
  calls_.fetch_add(called);
  wake(calls_, called);
}

void WorkerPool::work() {
  in_part = true;
  TimeSlice slice(TimeSlice::Clock::now());
  for (;;) {
    // In this order: an end that is not seen here opens another loop than `seen`.
    const std::uint32_t seen = opened_.load(std::memory_order_seq_cst);
    if (ending_) return;
    if (!help(slice)) wait_for_loops(seen);
  }
}

bool WorkerPool::help(TimeSlice& slice) {
  Place* best = nullptr;
  Turns::Seen best_seen = places_[0].turns.seen();
  for (Place& place : places_) {
    const Turns::Seen seen = place.turns.seen();
    if (seen.left() == 0 || seen.helpers() >= place.helpers.load(std::memory_order_relaxed))
      continue;
    if (best != nullptr && seen.helpers() >= best_seen.helpers()) continue;
    best = &place;
    best_seen = seen;
  }
  if (best == nullptr) return false;
  bool helped = false;
  if (computing_.fetch_add(1, std::memory_order_relaxed) < wanted())
    helped = help(*best, best_seen, slice);
  computing_.fetch_sub(1, std::memory_order_relaxed);
  return helped;
}

bool WorkerPool::help(Place& place, Turns::Seen seen, TimeSlice& slice) {
  const std::uint32_t joined = seen.number();
  bool joins = true;
  while (seen.number() == joined && seen.left() != 0 &&
         computing_.load(std::memory_order_relaxed) <= wanted()) {
    // What is read here is this loop's if a part can be taken.
    if (joins && seen.helpers() >= place.helpers.load(std::memory_order_relaxed)) break;
    const std::uint32_t part = seen.part(place.threads.load(std::memory_order_relaxed));
    if (!place.turns.take(seen, part, joins)) continue;
    joins = false;
    do_part(place, seen, part);
    if (slice.is_over(TimeSlice::Clock::now())) give_way(slice);
    seen = place.turns.seen();
  }
  return !joins;
}

void WorkerPool::wait_for_loops(std::uint32_t seen) {
  const auto opened = [&] { return opened_.load(std::memory_order_seq_cst) != seen; };
  if (awake_.load() <= wanted() && spin_until(opened, spin())) return;
  awake_.fetch_sub(1);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (opened()) {
    // Awake after all, unless somebody has called already.
    std::uint32_t asleep = sleepers_.load();
    while (asleep != 0) {
      if (!sleepers_.compare_exchange_weak(asleep, asleep - 1)) continue;
      awake_.fetch_add(1);
      return;
    }
  }
  for (std::uint32_t calls = calls_.load();;) {
    if (calls == 0) {
      sleep_on(calls_, 0);
      calls = calls_.load();
    } else if (calls_.compare_exchange_weak(calls, calls - 1)) {
      return;
    }
  }
}

namespace {

std::atomic<WorkerPool*> shared_pool{nullptr};
std::atomic<WorkerPool*> pool_of_parent{nullptr};  // kept: its memory may be in use

/// Those that this thread may run on: what the machine has is more where a process is bound.
std::size_t cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = ::sched_getaffinity(0, sizeof set, &set) == 0;
  const auto many = known ? static_cast<std::size_t>(CPU_COUNT(&set))
                          : std::size_t{std::thread::hardware_concurrency()};
  return std::clamp<std::size_t>(many, 1, Turns::threads_most);
}

}  // namespace

WorkerPool& WorkerPool::shared() {
  if (WorkerPool* pool = shared_pool.load(std::memory_order_acquire)) return *pool;
  static const int prepared = ::pthread_atfork(nullptr, nullptr, [] {
    pool_of_parent = shared_pool.exchange(nullptr);
    in_part = false;
  });
  SLUICE_CHECK(prepared == 0, "a handler for forks can be had");
  const std::size_t threads = cores();
  auto made =
      std::make_unique<WorkerPool>(threads, crowded_least > threads ? crowded_least - threads : 0);
  WorkerPool* other = nullptr;
  if (shared_pool.compare_exchange_strong(other, made.get())) return *made.release();
  return *other;
}

void limit_threads(std::size_t most) { limit = most; }

std::size_t thread_limit() {
  if (in_part) return 1;
  const std::size_t all = WorkerPool::shared().threads();
  return limit == 0 ? all : std::min(limit, all);
}

}  // namespace sluice
