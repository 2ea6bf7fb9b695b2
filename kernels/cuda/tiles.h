// Products of 16 x 16 pieces that the lanes of a warp compute together, on tensor cores, and copies
// to shared memory that go on meanwhile.
//
// bf16 times bf16, sums in f32. For *.cu only. All lanes of a warp call each function of tiles;
// pointers are multiples of 16 bytes, strides (in values) of 8.
// Shape: of a sum a lane has rows lane / 4 and 8 more, columns 2 * (lane % 4) and the next, and 8
// more of each; of `values[8]` bit 0 is the next column, bit 1 the 8 rows, bit 2 the 8 columns.
// Source: PTX ISA, mma.m16n8k16 (fragments for .bf16), ldmatrix, cp.async.
#pragma once

#include "kernels/cuda/grid.h"

#ifndef SLUICE_EMULATED
#include <cuda_bf16.h>
#endif

namespace sluice::device {

inline constexpr unsigned tile_side = 16;

struct TileSum {
  float values[8];
};
__device__ __forceinline__ void clear(TileSum& sum) {
  SLUICE_UNROLL
  for (unsigned i = 0; i < 8; ++i) sum.values[i] = 0;
}
/// Of a lane's values: the row (0, or 1 for 8 further on) and the column in the tile.
constexpr unsigned sum_row(unsigned i) { return i / 2 % 2; }
__device__ __forceinline__ unsigned sum_column(unsigned i) {
  return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
}

#ifdef SLUICE_EMULATED

/// What a lane's sums need: of the left its two rows, of the right its four columns.
struct TileLeft {
  float values[2][tile_side];
};
struct TileRight {
  float values[4][tile_side];
};

inline unsigned lane_row(unsigned r) { return threadIdx.x % warp_size / 4 + 8 * r; }
inline unsigned lane_column(unsigned c) { return sum_column(c / 2 * 4 + c % 2); }

inline void load_tile(TileLeft& tile, const Bf16* from, unsigned stride) {
  for (unsigned r = 0; r < 2; ++r)
    for (unsigned k = 0; k < tile_side; ++k)
      tile.values[r][k] = widen(from[lane_row(r) * stride + k]);
}
inline void load_tile(TileRight& tile, const Bf16* from, unsigned stride) {
  for (unsigned c = 0; c < 4; ++c)
    for (unsigned k = 0; k < tile_side; ++k)
      tile.values[c][k] = widen(from[k * stride + lane_column(c)]);
}
inline void load_turned(TileRight& tile, const Bf16* from, unsigned stride) {
  for (unsigned c = 0; c < 4; ++c)
    for (unsigned k = 0; k < tile_side; ++k)
      tile.values[c][k] = widen(from[lane_column(c) * stride + k]);
}
inline void take_sum(TileLeft& tile, const TileSum& sum) {
  for (unsigned mask = 0; mask < 4; ++mask)
    for (unsigned i = 0; i < 8; ++i)
      tile.values[sum_row(i)][sum_column(i) ^ mask * 2] =
          widen(narrow(__shfl_xor_sync(0xffffffffU, sum.values[i], mask)));
}
inline void multiply_add(TileSum& sum, const TileLeft& left, const TileRight& right) {
  for (unsigned i = 0; i < 8; ++i)
    for (unsigned k = 0; k < tile_side; ++k)
      sum.values[i] += left.values[sum_row(i)][k] * right.values[i / 4 * 2 + i % 2][k];
}

inline void copy_ahead(Bf16* to, const Bf16* from, bool there) {
  *reinterpret_cast<Piece<Bf16>*>(to) = there ? load_piece(from) : Piece<Bf16>{};
}
inline void commit_copies() {}
template <unsigned LATER>
void wait_for_copies() {}

#else

struct TileLeft {
  unsigned words[4];
};
struct TileRight {
  unsigned words[4];
};

__device__ __forceinline__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

/// A piece as it lies.
__device__ __forceinline__ void load_tile(TileLeft& tile, const Bf16* from, unsigned stride) {
  const unsigned lane = threadIdx.x % warp_size;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tile.words[0]), "=r"(tile.words[1]), "=r"(tile.words[2]), "=r"(tile.words[3])
               : "r"(shared_address(from + lane % 16 * stride + lane / 16 * 8))
               : "memory");
}
__device__ __forceinline__ void load_tile(TileRight& tile, const Bf16* from, unsigned stride) {
  const unsigned lane = threadIdx.x % warp_size;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tile.words[0]), "=r"(tile.words[1]), "=r"(tile.words[2]), "=r"(tile.words[3])
               : "r"(shared_address(from + lane % 16 * stride + lane / 16 * 8))
               : "memory");
}
/// The transpose of what lies there.
__device__ __forceinline__ void load_turned(TileRight& tile, const Bf16* from, unsigned stride) {
  const unsigned lane = threadIdx.x % warp_size;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tile.words[0]), "=r"(tile.words[1]), "=r"(tile.words[2]), "=r"(tile.words[3])
               : "r"(shared_address(from + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8))
               : "memory");
}
/// A sum, rounded to bf16, as the left of a product.
__device__ __forceinline__ void take_sum(TileLeft& tile, const TileSum& sum) {
  SLUICE_UNROLL
  for (unsigned w = 0; w < 4; ++w) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(sum.values[2 * w], sum.values[2 * w + 1]);
    tile.words[w] = *reinterpret_cast<const unsigned*>(&pair);
  }
}
__device__ __forceinline__ void multiply_add(TileSum& sum, const TileLeft& left,
                                             const TileRight& right) {
  SLUICE_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    float* to = sum.values + half * 4;
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
        : "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3]),
          "r"(right.words[half * 2]), "r"(right.words[half * 2 + 1]));
  }
}

/// 16 bytes to shared memory, or zeros; there when this thread has waited.
__device__ __forceinline__ void copy_ahead(Bf16* to, const Bf16* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
               : "memory");
}
/// The copies since the last call are one group, which can be waited for.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }
/// For all groups but the last `LATER`.
template <unsigned LATER>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(LATER) : "memory");
}

#endif

}  // namespace sluice::device
