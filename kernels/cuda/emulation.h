// CUDA's threads on the CPU: the kernels' own sources run, block by block, without a GPU.
//
// Each thread of a block is a fiber; `__syncthreads` and the warp shuffles wait for the others as
// the hardware does, and threads that never meet at one end the program with what they wait for. An
// address sanitizer sees every access. Slow: for tests only. Thread: one launch at a time.
#pragma once

#include <bit>
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
  /// others: waits too, memory, streams. copies: those that go on meanwhile.
  enum class Of : unsigned char { products, waits, others, copies };
  Of of = Of::others;
  std::size_t call = 0;
  bool happened = false;
};
/// Null: nothing goes wrong. Borrowed until the next.
void plan_fault(Fault* fault);
/// How many questions whether copies that go on meanwhile are done are answered with no; 1 unless
/// said otherwise.
void slow_copies(std::size_t questions);

/// Runs `body` as every thread of every block.
void run(Dim3 grid, Dim3 block, std::size_t shared_bytes, const std::function<void()>& body);

/// Memory that the block's threads share.
void* shared_memory();
void wait_for_block();
void wait_for_warp();
/// A kernel whose threads wait for each other, or end, before it ends the program: on a GPU they
/// would read too early.
void wait_for_inputs();
/// The value that lane `lane ^ mask` of the warp gives.
float shuffle_xor(float value, unsigned mask);

}  // namespace sluice::device::emulated

#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(threads)
#define threadIdx ::sluice::device::emulated::thread_index
#define blockIdx ::sluice::device::emulated::block_index
#define blockDim ::sluice::device::emulated::block_size
#define gridDim ::sluice::device::emulated::grid_size

namespace sluice::device {

inline void __syncthreads() { emulated::wait_for_block(); }
inline float __shfl_xor_sync(unsigned, float value, unsigned mask) {
  return emulated::shuffle_xor(value, mask);
}
inline std::uint64_t __shfl_xor_sync(unsigned, std::uint64_t value, unsigned mask) {
  const auto part = [&](std::uint64_t bits) {
    const auto word = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    return std::uint64_t{std::bit_cast<std::uint32_t>(emulated::shuffle_xor(word, mask))};
  };
  const std::uint64_t high = part(value >> 32);
  return high << 32 | part(value);
}
/// A block's threads run by turns: nobody comes between.
inline std::uint32_t atomicAdd(std::uint32_t* to, std::uint32_t value) {
  const std::uint32_t old = *to;
  *to += value;
  return old;
}
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }

}  // namespace sluice::device
