// Threads that help whoever has a loop to run, or a relay of loops: the callers compute too, so a
// pool for two cores has one worker.
//
// A loop is cut when threads come (base/turns.h). A worker that the system does not run takes no
// part, and the caller waits for parts that were begun, never for workers. In a relay whoever ends
// a loop begins the next one, so it goes on while the caller itself has no core. Between two parts
// a worker, and in a relay the caller too, gives its core away before the system would take it amid
// one. Who waits spins for some tens of microseconds, then sleeps in the kernel. While as many
// threads compute as the pool is for, callers counted, no worker joins: several callers share one
// machine. While other processes want the cores (base/crowd.h) spare workers compute too, in loops
// that may take all threads: those are kept from their cores less than they would be.
// Thread: any number of callers; a loop inside a part runs on that part's thread. A fork's child
// has no workers, so it gets a `shared` pool of its own; another pool's loops run on their callers.
// Owns: the workers; `shared`'s live until the process ends.
// Errors: after a part has thrown no other is begun, and the caller gets what the first one threw.
// Cost: about a microsecond a loop while workers spin; a wake-up call where they sleep.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/crowd.h"
#include "base/turns.h"

namespace sluice {

class TimeSlice;

class WorkerPool {
 public:
  /// So many threads, the caller's counted; `spares`: workers more while others want the cores,
  /// made when that is first so.
  explicit WorkerPool(std::size_t threads, std::size_t spares = 0);
  /// Requires: no caller is in `run`.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// The process's, for all cores that it may use, with spare workers where there are few cores;
  /// made when first asked for.
  static WorkerPool& shared();

  std::size_t threads() const { return threads_; }
  /// One of its threads gave its core away and has it back.
  void came_back(Crowd::Time gave, Crowd::Time back);

  /// `body(begin, end)` over parts of [0, count), on at most `threads_most` threads; returns when
  /// all are done. Requires: count <= count_most.
  template <typename Body>
  void run(std::size_t count, std::size_t threads_most, const Body& body) {
    run(count, threads_most, {nullptr, part_of<Body>, nullptr, &body});
  }

  /// Loops one behind the other: `next()` says how many indices the next one has, 0: that was all.
  /// It is called by one thread at a time, any of them, when all parts of the loop before are done,
  /// and does meanwhile what has to stand between the two. That thread also runs a loop of one
  /// index. `body` and `next` see what was written before. Requires: each count <= count_most.
  template <typename Next, typename Body>
  void relay(std::size_t threads_most, const Next& next, const Body& body) {
    const auto call = [](const void* context) -> std::size_t {
      return (*static_cast<const Next*>(context))();
    };
    run(next(), threads_most, {call, part_of<Body>, &next, &body});
  }
  static constexpr std::size_t count_most = Turns::count_most;

 private:
  using Part = void (*)(const void* body, std::size_t begin, std::size_t end);
  template <typename Body>
  static void part_of(const void* body, std::size_t begin, std::size_t end) {
    (*static_cast<const Body*>(body))(begin, end);
  }
  /// What a caller brings.
  struct Work {
    std::size_t (*next)(const void* next_context) = nullptr;  // null: one loop is all
    Part part = nullptr;
    const void* next_context = nullptr;
    const void* body = nullptr;
  };

  /// A place for a caller's loops. Whoever comes too late gets no part of a loop that is over, for
  /// the next one has another number.
  struct Place {
    Turns turns;
    std::atomic<std::uint32_t> threads{0};  // read before a part is taken, as the next
    std::atomic<std::uint32_t> helpers{0};  // at most; what follows, after it
    std::atomic<std::uint32_t> count{0};
    Work work;
    std::exception_ptr thrown;
    std::atomic<bool> failed{false};
    /// Changes when a loop is opened and when all is over; the caller sleeps on it.
    alignas(64) std::atomic<std::uint32_t> news{0};
    std::atomic<bool> taken{false};
  };

  void run(std::size_t count, std::size_t threads_most, const Work& work);
  static std::size_t run_here(std::size_t count, std::size_t most, const Work& work);
  Place* take_place();
  void open(Place& place, std::size_t count);
  void take_parts(Place& place, bool gives_way);
  void do_part(Place& place, Turns::Seen seen, std::uint32_t part);
  void end_loop(Place& place);
  void fail(Place& place);
  void wait_for_news(Place& place, std::uint32_t seen);
  void wake_workers(std::size_t most);
  void work();
  bool help(TimeSlice& slice);
  bool help(Place& place, Turns::Seen seen, TimeSlice& slice);
  void wait_for_loops(std::uint32_t seen);
  void give_way(TimeSlice& slice);
  void add_spares();
  std::size_t workers_most() const { return threads_ + spares_ - 1; }
  std::chrono::microseconds spin() const;
  /// How many threads may compute now.
  std::size_t wanted() const { return threads_ + (crowd_.is_here() ? spares_ : 0); }

  const std::size_t threads_, spares_;
  Crowd crowd_;
  std::array<Place, 16> places_;
  alignas(64) std::atomic<std::uint32_t> opened_{0};     // loops so far: what idle workers watch
  alignas(64) std::atomic<std::uint32_t> computing_{0};  // threads in loops, callers counted
  std::atomic<std::uint32_t> awake_{0};  // callers, and workers that compute or look for a loop
  alignas(64) std::atomic<std::uint32_t> sleepers_{0};  // workers that nobody has called yet
  std::atomic<std::uint32_t> calls_{0};                 // for sleepers; each takes one
  std::atomic<bool> ending_{false}, spares_added_{false};
  std::mutex workers_mutex_;  // held while spare workers are added
  std::vector<std::thread> workers_;
};

/// The calling thread's loops take at most so many threads from now on; 0: all there are.
void limit_threads(std::size_t most);
/// How many threads a loop of the calling thread may take; 1 inside a part of one.
std::size_t thread_limit();

}  // namespace sluice
