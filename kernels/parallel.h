// Splits a kernel's loop over the machine's cores.
//
// Results do not depend on the number of threads: each index is computed by one of them, whole.
// Thread: nested calls run on the caller's. OpenMP's threads are used because oneDNN's products
// run on the same ones; they spin for a moment after a loop and then sleep.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <cstddef>

namespace sluice::kernels {

/// How many threads a loop may get. For how work is cut, never for what it comes to.
inline std::size_t thread_count() {
#ifdef _OPENMP
  return static_cast<std::size_t>(omp_get_max_threads());
#else
  return 1;
#endif
}

/// `body(begin, end)` over parts of [0, count). Below `grain` indices per thread: the caller's
/// thread alone, for waking another costs microseconds.
template <typename Body>
void parallel_for(std::size_t count, std::size_t grain, const Body& body) {
#ifdef _OPENMP
  if (count >= 2 * grain) {
#pragma omp parallel
    {
      const auto threads = static_cast<std::size_t>(omp_get_num_threads());
      const auto self = static_cast<std::size_t>(omp_get_thread_num());
      body(count * self / threads, count * (self + 1) / threads);
    }
    return;
  }
#endif
  body(0, count);
}

}  // namespace sluice::kernels
