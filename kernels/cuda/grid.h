// What kernels are written in: CUDA, or its emulation on the CPU (`SLUICE_EMULATED`).
//
// For *.cu only. Values are f32 or bf16 in memory and f32 in registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.h"

#ifdef SLUICE_EMULATED
#include <algorithm>

#include "kernels/cuda/emulation.h"
#else
#include <cuda_runtime.h>

#include <utility>
#endif

namespace sluice::device {

#ifdef SLUICE_EMULATED
using Dim = emulated::Dim3;
#define SLUICE_UNROLL
#define SLUICE_SHARED(type, name) type* name = static_cast<type*>(emulated::shared_memory())
#define SLUICE_LAUNCH(kernel, grid, block, shared, stream, ...)             \
  ((void)(stream), emulated::submit([=] {                                   \
     emulated::run(grid, Dim{block}, shared, [=] { kernel(__VA_ARGS__); }); \
   }))
inline void wait_for_inputs() { emulated::wait_for_inputs(); }
#else
using Dim = dim3;
#define SLUICE_UNROLL _Pragma("unroll")
#define SLUICE_SHARED(type, name)                                 \
  extern __shared__ __align__(128) unsigned char sluice_shared[]; \
  type* name = reinterpret_cast<type*>(sluice_shared)
#define SLUICE_LAUNCH(kernel, grid, block, shared, stream, ...) \
  launch_early(kernel, grid, block, shared, static_cast<cudaStream_t>(stream), __VA_ARGS__)

/// Whether `launch_early` may do what it is for.
bool launches_early();

/// A kernel that may be brought to the processors while the one before it ends: from Hopper on,
/// where `wait_for_inputs` then waits. Source: CUDA C++ Programming Guide, programmatic dependent
/// launch.
template <typename... Parameters, typename... Arguments>
void launch_early(void (*kernel)(Parameters...), Dim grid, unsigned block, std::size_t shared,
                  cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = launches_early() ? 1 : 0;
  // A refusal is reported by `synchronise`, as of every launch.
  (void)cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}
/// What the kernels before have written is there. Each kernel calls it first, in all threads:
/// before it, only weights are read and nothing is written.
__device__ __forceinline__ void wait_for_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

inline constexpr unsigned warp_size = 32;

/// Threads of a block whose number is free: few on the emulation, where each costs a switch.
constexpr unsigned block_of(unsigned threads) {
#ifdef SLUICE_EMULATED
  return threads < 2 * warp_size ? threads : 2 * warp_size;
#else
  return threads;
#endif
}

__device__ __forceinline__ float load(float value) { return value; }
__device__ __forceinline__ float load(Bf16 value) {
#ifdef SLUICE_EMULATED
  return widen(value);
#else
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
#endif
}

__device__ __forceinline__ void store(float* to, float value) { *to = value; }
__device__ __forceinline__ void store(Bf16* to, float value) {
#ifdef SLUICE_EMULATED
  *to = narrow(value);
#else
  const unsigned bits = __float_as_uint(value);
  to->bits = static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
#endif
}

__device__ __forceinline__ float warp_sum(float value) {
  for (unsigned mask = warp_size / 2; mask > 0; mask /= 2)
    value += __shfl_xor_sync(0xffffffffU, value, mask);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
  for (unsigned mask = warp_size / 2; mask > 0; mask /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, mask));
  return value;
}

/// Of all threads of a block of whole warps, at most 32. `scratch`: 32 values of shared memory.
__device__ __forceinline__ float block_sum(float value, float* scratch) {
  const unsigned warps = blockDim.x / warp_size;
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % warp_size == 0) scratch[threadIdx.x / warp_size] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % warp_size;
  return warp_sum(lane < warps ? scratch[lane] : 0.0F);
}

/// 16 bytes: what a lane reads at once. Requires: an address that is a multiple of it.
template <typename T>
struct alignas(16) Piece {
  static constexpr unsigned count = 16 / sizeof(T);
  T values[count];
};
template <typename T>
__device__ __forceinline__ Piece<T> load_piece(const T* from) {
  return *reinterpret_cast<const Piece<T>*>(from);
}

/// Asks for the line of memory at `from`, which is read soon.
__device__ __forceinline__ void prefetch(const void* from) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#else
  (void)from;
#endif
}

inline unsigned blocks_for(std::size_t count, std::size_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

}  // namespace sluice::device
