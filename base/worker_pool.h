// Threads that help whoever has a loop to run: the callers compute too, so a pool for two cores has
// one worker.
//
// A loop is cut when threads come: each takes a part of what is left, large ones first. A worker
// that the system does not run takes none, and the caller waits for parts that were begun, never
// for workers. A worker gives its core away between two parts before the system would take it amid
// one. Who waits spins for some tens of microseconds, then sleeps in the kernel. While as
// many threads compute as the pool is for, callers counted, no worker joins: several callers share
// one machine.
// Thread: any number of callers; a loop inside a part runs on that part's thread. A fork's child
// has no workers, so it gets a `shared` pool of its own; another pool's loops run on their callers.
// Owns: the workers; `shared`'s live until the process ends.
// Cost: about a microsecond a loop while workers spin; a wake-up call where they sleep.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace sluice {

class TimeSlice;

class WorkerPool {
 public:
  /// So many threads, the caller's counted.
  explicit WorkerPool(std::size_t threads);
  /// Requires: no caller is in `run`.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// The process's, for all cores that it may use; made when first asked for.
  static WorkerPool& shared();

  std::size_t threads() const { return threads_; }

  /// `body(begin, end)` over parts of [0, count), on at most `threads_most` threads; returns when
  /// all are done. Requires: count <= count_most.
  template <typename Body>
  void run(std::size_t count, std::size_t threads_most, const Body& body) {
    const auto call = [](const void* context, std::size_t begin, std::size_t end) {
      (*static_cast<const Body*>(context))(begin, end);
    };
    run(count, threads_most, call, &body);
  }
  static constexpr std::size_t count_most = 1 << 20;

 private:
  using Call = void (*)(const void* context, std::size_t begin, std::size_t end);

  /// A loop that is under way. What it runs may be read by a worker that comes too late: its claim
  /// then fails, for the claim's number has moved on.
  struct alignas(64) Loop {
    std::atomic<std::uint64_t> claim{0};  // number of the loop, helpers, indices that are left
    std::atomic<Call> call{nullptr};
    std::atomic<const void*> context{nullptr};
    std::atomic<std::uint32_t> count{0}, threads{0};
    alignas(64) std::atomic<std::uint32_t> done{0};  // by workers; the caller sleeps on it
    std::atomic<bool> taken{false};
  };

  void run(std::size_t count, std::size_t threads_most, Call call, const void* context);
  Loop* take_loop();
  void open(Loop& loop, std::size_t count, std::size_t threads, Call call, const void* context);
  void wait_for(Loop& loop, std::uint32_t by_workers);
  void wake_workers(std::size_t most);
  void work();
  bool help(TimeSlice& slice);
  bool help(Loop& loop, std::uint64_t claim, TimeSlice& slice);
  void wait_for_loops(std::uint32_t seen);

  const std::size_t threads_;
  std::array<Loop, 16> loops_;
  alignas(64) std::atomic<std::uint32_t> opened_{0};     // loops so far: what idle workers watch
  alignas(64) std::atomic<std::uint32_t> computing_{0};  // threads in loops, callers counted
  alignas(64) std::atomic<std::uint32_t> sleepers_{0};   // workers that nobody has called yet
  std::atomic<std::uint32_t> calls_{0};                  // for sleepers; each takes one
  std::atomic<bool> ending_{false};
  std::vector<std::thread> workers_;
};

/// The calling thread's loops take at most so many threads from now on; 0: all there are.
void limit_threads(std::size_t most);
/// How many threads a loop of the calling thread may take; 1 inside a part of one.
std::size_t thread_limit();

}  // namespace sluice
