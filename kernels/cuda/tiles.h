// Products of 16 x 16 pieces that the lanes of a warp compute together, on tensor cores.
//
// bf16 times bf16, sums in f32. For *.cu only. All lanes of a warp call each function; pointers are
// multiples of 32 bytes, strides (in values) of 8. The emulation's lanes hold eight sums each, as
// the hardware's do, and read the rest. Source: CUDA C++ Programming Guide, warp matrix functions.
#pragma once

#include "kernels/cuda/grid.h"

#ifndef SLUICE_EMULATED
#include <cuda_bf16.h>
#include <mma.h>
#endif

namespace sluice::device {

inline constexpr unsigned tile_side = 16;

#ifdef SLUICE_EMULATED

/// [row][column]; `Right` is what a left one is multiplied by.
struct TileLeft {
  float values[tile_side][tile_side];
};
struct TileRight {
  float values[tile_side][tile_side];
};
/// A lane's: its column of every second row.
struct TileSum {
  float values[tile_side / 2];
};
using TileRightTurned = TileRight;

inline void load_tile(TileLeft& tile, const Bf16* from, unsigned stride) {
  for (unsigned r = 0; r < tile_side; ++r)
    for (unsigned c = 0; c < tile_side; ++c) tile.values[r][c] = widen(from[r * stride + c]);
}
inline void load_tile(TileRight& tile, const Bf16* from, unsigned stride) {
  for (unsigned r = 0; r < tile_side; ++r)
    for (unsigned c = 0; c < tile_side; ++c) tile.values[r][c] = widen(from[r * stride + c]);
}
inline void load_turned(TileRightTurned& tile, const Bf16* from, unsigned stride) {
  for (unsigned r = 0; r < tile_side; ++r)
    for (unsigned c = 0; c < tile_side; ++c) tile.values[r][c] = widen(from[c * stride + r]);
}
inline void clear(TileSum& sum) { std::fill_n(sum.values, tile_side / 2, 0.0F); }
inline void multiply_add(TileSum& sum, const TileLeft& left, const TileRight& right) {
  const unsigned lane = threadIdx.x % warp_size;
  for (unsigned i = 0; i < tile_side / 2; ++i)
    for (unsigned k = 0; k < tile_side; ++k)
      sum.values[i] += left.values[2 * i + lane / tile_side][k] * right.values[k][lane % tile_side];
}
inline void store_tile(float* to, const TileSum& sum, unsigned stride) {
  const unsigned lane = threadIdx.x % warp_size;
  for (unsigned i = 0; i < tile_side / 2; ++i)
    to[(2 * i + lane / tile_side) * stride + lane % tile_side] = sum.values[i];
}

#else

namespace tensor = nvcuda::wmma;
using TileLeft = tensor::fragment<tensor::matrix_a, 16, 16, 16, __nv_bfloat16, tensor::row_major>;
using TileRight = tensor::fragment<tensor::matrix_b, 16, 16, 16, __nv_bfloat16, tensor::row_major>;
using TileRightTurned =
    tensor::fragment<tensor::matrix_b, 16, 16, 16, __nv_bfloat16, tensor::col_major>;
using TileSum = tensor::fragment<tensor::accumulator, 16, 16, 16, float>;

/// A piece as it lies.
template <typename Tile>
__device__ __forceinline__ void load_tile(Tile& tile, const Bf16* from, unsigned stride) {
  tensor::load_matrix_sync(tile, reinterpret_cast<const __nv_bfloat16*>(from), stride);
}
/// The transpose of what lies there.
__device__ __forceinline__ void load_turned(TileRightTurned& tile, const Bf16* from,
                                            unsigned stride) {
  load_tile(tile, from, stride);
}
__device__ __forceinline__ void clear(TileSum& sum) { tensor::fill_fragment(sum, 0.0F); }
template <typename Right>
__device__ __forceinline__ void multiply_add(TileSum& sum, const TileLeft& left,
                                             const Right& right) {
  tensor::mma_sync(sum, left, right, sum);
}
__device__ __forceinline__ void store_tile(float* to, const TileSum& sum, unsigned stride) {
  tensor::store_matrix_sync(to, sum, stride, tensor::mem_row_major);
}

#endif

}  // namespace sluice::device
