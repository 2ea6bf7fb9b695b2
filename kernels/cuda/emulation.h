// CUDA's threads on the CPU: the kernels' own sources run, block by block, without a GPU.
//
// Each thread of a block is a fiber; `__syncthreads` and the warp shuffles wait for the others as
// the hardware does, and threads that never meet at one end the program with what they wait for. An
// address sanitizer sees every access. Slow: for tests only. Thread: one launch at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace sluice::device::emulated {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

inline Dim3 thread_index, block_index, block_size, grid_size;

/// Does a piece of work in its turn; while a recording runs, keeps it for later.
void submit(std::function<void()> work);

/// What a test lets go wrong: the call of that number, from 0, of those that may fail.
struct Fault {
  enum class Of : unsigned char { products, waits, others };  // others: waits too, memory, streams
  Of of = Of::others;
  std::size_t call = 0;
  bool happened = false;
};
/// Null: nothing goes wrong. Borrowed until the next.
void plan_fault(Fault* fault);

/// Runs `body` as every thread of every block.
void run(Dim3 grid, Dim3 block, std::size_t shared_bytes, const std::function<void()>& body);

/// Memory that the block's threads share.
void* shared_memory();
void wait_for_block();
void wait_for_warp();
/// The value that lane `source(lane)` of the warp gives.
float shuffle_xor(float value, unsigned mask);

}  // namespace sluice::device::emulated

#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__
#define threadIdx ::sluice::device::emulated::thread_index
#define blockIdx ::sluice::device::emulated::block_index
#define blockDim ::sluice::device::emulated::block_size
#define gridDim ::sluice::device::emulated::grid_size

namespace sluice::device {

inline void __syncthreads() { emulated::wait_for_block(); }
inline void __syncwarp() { emulated::wait_for_warp(); }
inline float __shfl_xor_sync(unsigned, float value, unsigned mask) {
  return emulated::shuffle_xor(value, mask);
}
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }

}  // namespace sluice::device
