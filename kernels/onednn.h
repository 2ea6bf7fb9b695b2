// oneDNN, called so that it computes on the calling thread alone: we cut the work, and its own
// threads (OpenMP's) would spin beside ours.
#pragma once

#include <cstddef>

namespace sluice::kernels {

/// Before each use of the library on this thread. Cost: none after the first.
void keep_library_on_this_thread();

/// c [m, n] = a [m, k] b, or on top of what is there, with b [k, n] or, transposed, [n, k].
/// On a processor with AVX2 and no AVX-512 a row of c has the same bits whatever m is.
struct Sgemm {
  bool transposed = false, on_top = false;
  std::size_t m = 0, n = 0, k = 0;
  std::size_t c_stride = 0;  // from a row of c to the next
};
void sgemm(const Sgemm& shape, const float* a, const float* b, float* c);

}  // namespace sluice::kernels
