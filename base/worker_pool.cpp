#include "base/worker_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>

#include "base/check.h"
#include "base/time_slice.h"

namespace sluice {

namespace {

/// Longer than what a decoder does between two products, shorter than a wake-up is worth.
constexpr std::chrono::microseconds spin_most{40};
constexpr std::uint32_t sleeps = 1U << 31;  // in Loop::done

thread_local bool in_part = false;
thread_local std::size_t limit = 0;  // of this thread's loops; 0: none

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Until `ready()`, for a moment at most. False: not yet.
template <typename Ready>
bool spin_until(const Ready& ready) {
  constexpr int looks = 16;  // at what is awaited, for each at the clock
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < looks; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() - start < spin_most);
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

/// Loop::claim: what is left of the loop below, then helpers that have joined, then the loop's
/// number.
constexpr std::uint64_t one_helper = 1ULL << 21;
constexpr std::uint64_t one_loop = 1ULL << 32;
constexpr std::size_t threads_limit = one_loop / one_helper;
constexpr std::uint64_t left(std::uint64_t claim) { return claim % one_helper; }
constexpr std::uint64_t helpers(std::uint64_t claim) { return claim % one_loop / one_helper; }
constexpr std::uint64_t number(std::uint64_t claim) { return claim / one_loop; }
/// What a thread takes at once. The last parts are small, so that all end together.
constexpr std::uint64_t part_of(std::uint64_t claim, std::uint32_t threads) {
  return std::max<std::uint64_t>(left(claim) / (2 * threads), 1);
}

}  // namespace

WorkerPool::WorkerPool(std::size_t threads) : threads_(std::max<std::size_t>(threads, 1)) {
  for (std::size_t i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  ending_ = true;
  ++opened_;
  wake_workers(workers_.size());
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::run(std::size_t count, std::size_t threads_most, Call call, const void* context) {
  SLUICE_CHECK(count <= count_most, "a loop of too many indices");
  const std::size_t most = std::min({count, threads_most, threads(), threads_limit});
  Loop* loop = most > 1 && !in_part ? take_loop() : nullptr;
  if (loop == nullptr) {
    if (count != 0) call(context, 0, count);
    return;
  }
  open(*loop, count, most, call, context);
  in_part = true;
  std::size_t mine = 0;
  std::uint64_t claim = loop->claim.load(std::memory_order_acquire);
  while (left(claim) != 0) {
    const std::uint64_t part = part_of(claim, static_cast<std::uint32_t>(most));
    if (!loop->claim.compare_exchange_weak(claim, claim - part, std::memory_order_acq_rel,
                                           std::memory_order_acquire))
      continue;
    const std::size_t begin = count - left(claim);
    call(context, begin, begin + part);
    mine += part;
    claim = loop->claim.load(std::memory_order_acquire);
  }
  in_part = false;
  wait_for(*loop, static_cast<std::uint32_t>(count - mine));
  computing_.fetch_sub(1, std::memory_order_relaxed);
  loop->taken.store(false, std::memory_order_release);
}

WorkerPool::Loop* WorkerPool::take_loop() {
  for (Loop& loop : loops_)
    if (!loop.taken.load(std::memory_order_relaxed) &&
        !loop.taken.exchange(true, std::memory_order_acquire))
      return &loop;
  return nullptr;
}

void WorkerPool::open(Loop& loop, std::size_t count, std::size_t threads, Call call,
                      const void* context) {
  loop.call.store(call, std::memory_order_relaxed);
  loop.context.store(context, std::memory_order_relaxed);
  loop.count.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  loop.threads.store(static_cast<std::uint32_t>(threads), std::memory_order_relaxed);
  loop.done.store(0, std::memory_order_relaxed);
  const std::size_t busy = computing_.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t last = loop.claim.load(std::memory_order_relaxed);
  loop.claim.store((number(last) + 1) * one_loop + count, std::memory_order_release);
  opened_.fetch_add(1, std::memory_order_seq_cst);
  if (busy < this->threads()) wake_workers(std::min(threads - 1, this->threads() - busy));
}

void WorkerPool::wait_for(Loop& loop, std::uint32_t by_workers) {
  const auto done = [&] { return loop.done.load(std::memory_order_acquire) == by_workers; };
  if (done() || spin_until(done)) return;
  std::uint32_t seen = loop.done.fetch_or(sleeps, std::memory_order_acq_rel) | sleeps;
  while (seen != (by_workers | sleeps)) {
    sleep_on(loop.done, seen);
    seen = loop.done.load(std::memory_order_acquire);
  }
}

void WorkerPool::wake_workers(std::size_t most) {
  std::uint32_t asleep = sleepers_.load(std::memory_order_seq_cst);
  std::uint32_t called = 0;
  do {
    called = static_cast<std::uint32_t>(std::min<std::size_t>(asleep, most));
    if (called == 0) return;
  } while (!sleepers_.compare_exchange_weak(asleep, asleep - called));
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
  Loop* best = nullptr;
  std::uint64_t best_claim = 0;
  for (Loop& loop : loops_) {
    const std::uint64_t claim = loop.claim.load(std::memory_order_acquire);
    if (left(claim) == 0 || helpers(claim) + 1 >= loop.threads.load(std::memory_order_relaxed))
      continue;
    if (best != nullptr && helpers(claim) >= helpers(best_claim)) continue;
    best = &loop;
    best_claim = claim;
  }
  if (best == nullptr) return false;
  bool helped = false;
  if (computing_.fetch_add(1, std::memory_order_relaxed) < threads())
    helped = help(*best, best_claim, slice);
  computing_.fetch_sub(1, std::memory_order_relaxed);
  return helped;
}

bool WorkerPool::help(Loop& loop, std::uint64_t claim, TimeSlice& slice) {
  const std::uint64_t joined = number(claim);
  std::uint64_t joins = one_helper;
  while (number(claim) == joined && left(claim) != 0 &&
         computing_.load(std::memory_order_relaxed) <= threads()) {
    // What is read here is this loop's if the claim succeeds.
    const Call call = loop.call.load(std::memory_order_relaxed);
    const void* context = loop.context.load(std::memory_order_relaxed);
    const std::uint32_t count = loop.count.load(std::memory_order_relaxed);
    const std::uint32_t threads = loop.threads.load(std::memory_order_relaxed);
    if (joins != 0 && helpers(claim) + 1 >= threads) break;
    const std::uint64_t part = part_of(claim, threads);
    if (!loop.claim.compare_exchange_weak(claim, claim - part + joins, std::memory_order_acq_rel,
                                          std::memory_order_acquire))
      continue;
    joins = 0;
    const std::size_t begin = count - left(claim);
    call(context, begin, begin + part);
    const auto did = static_cast<std::uint32_t>(part);
    if ((loop.done.fetch_add(did, std::memory_order_acq_rel) & sleeps) != 0) wake(loop.done, 1);
    if (slice.is_over(TimeSlice::Clock::now())) {
      ::sched_yield();
      slice.begin(TimeSlice::Clock::now());
    }
    claim = loop.claim.load(std::memory_order_acquire);
  }
  return joins == 0;
}

void WorkerPool::wait_for_loops(std::uint32_t seen) {
  const auto opened = [&] { return opened_.load(std::memory_order_seq_cst) != seen; };
  if (computing_.load(std::memory_order_relaxed) < threads() && spin_until(opened)) return;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (opened()) {
    // Awake after all, unless somebody has called already.
    std::uint32_t asleep = sleepers_.load();
    while (asleep != 0)
      if (sleepers_.compare_exchange_weak(asleep, asleep - 1)) return;
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
  return std::clamp<std::size_t>(many, 1, threads_limit);
}

}  // namespace

WorkerPool& WorkerPool::shared() {
  if (WorkerPool* pool = shared_pool.load(std::memory_order_acquire)) return *pool;
  static const int prepared = ::pthread_atfork(nullptr, nullptr, [] {
    pool_of_parent = shared_pool.exchange(nullptr);
    in_part = false;
  });
  SLUICE_CHECK(prepared == 0, "a handler for forks can be had");
  auto made = std::make_unique<WorkerPool>(cores());
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
