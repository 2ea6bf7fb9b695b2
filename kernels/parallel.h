// Splits a kernel's loop over the machine's cores.
//
// Results do not depend on the number of threads: each index is computed by one of them, whole.
// Thread: nested calls run on the caller's.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/worker_pool.h"

namespace sluice::kernels {

/// How many threads a loop may get. For how work is cut, never for what it comes to.
inline std::size_t thread_count() { return thread_limit(); }

/// `body(begin, end)` over parts of [0, count), which threads take as they come: more parts than
/// threads. Below `grain` indices per thread: the caller's thread alone, for another costs
/// microseconds.
template <typename Body>
void parallel_for(std::size_t count, std::size_t grain, const Body& body) {
  constexpr std::size_t units_most = 1024;
  const std::size_t threads = count < 2 * grain ? 1 : std::min(thread_count(), count / grain);
  if (threads < 2) {
    if (count != 0) body(0, count);
    return;
  }
  const std::size_t units = std::min({count, 4 * count / grain, units_most});
  WorkerPool::shared().run(units, threads, [&](std::size_t begin, std::size_t end) {
    body(count * begin / units, count * end / units);
  });
}

/// How many parts a loop that reads memory in order is cut into: few long ones, for at the
/// beginning of each the processor does not yet know what to read ahead. Large loops end in small
/// parts, as above. 1: the caller's thread alone.
inline std::size_t stream_units(std::size_t count, std::size_t grain, std::size_t threads_most) {
  const std::size_t threads = count < 2 * grain ? 1 : std::min(threads_most, count / grain);
  return threads < 2 ? 1 : std::min(count, std::max(2 * threads, count / (4 * grain)));
}

/// As `parallel_for`, for such a loop.
template <typename Body>
void parallel_streams(std::size_t count, std::size_t grain, const Body& body) {
  const std::size_t units = stream_units(count, grain, thread_count());
  if (units < 2) return parallel_for(count, count + 1, body);
  WorkerPool::shared().run(units, std::min(thread_count(), count / grain),
                           [&](std::size_t begin, std::size_t end) {
                             body(count * begin / units, count * end / units);
                           });
}

/// Loops one behind the other, begun by whichever thread has ended the one before (WorkerPool).
template <typename Next, typename Body>
void parallel_relay(const Next& next, const Body& body) {
  WorkerPool::shared().relay(thread_count(), next, body);
}

}  // namespace sluice::kernels
