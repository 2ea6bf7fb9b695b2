// The processor's matrix tiles (AMX): what products and attention on them share. For kernels only.
//
// A tile is 16 rows of 64 bytes. C += A B takes A [16, 32] bf16 with rows as they lie in memory,
// and B [32, 16] bf16 as 16 rows of pairs: row i holds (B[2i][n], B[2i + 1][n]) for each column n.
// C is [16, 16] f32. A stored matrix' row-major transpose is such a B once its pairs are
// transposed: `pack_rows`. Of bytes, a row holds 64 and B's rows are of fours; C is whole numbers.
// Measured: one core's two threads share the unit; with operands that come from the second cache
// it multiplies at its full rate, where oneDNN 2.7's products reach a third of it.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/bf16_avx512.h"
#include "kernels/exp_avx512.h"

#if defined(__x86_64__)
#define SLUICE_AMX                                                       \
  [[gnu::target(                                                         \
      "amx-tile,amx-bf16,amx-int8,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni," \
      "avx512bf16,avx2,fma,f16c")]]
#endif

namespace sluice::kernels {

namespace amx {

constexpr std::size_t side = 16;            // rows of a tile, and f32 in each
constexpr std::size_t depth = 2 * side;     // bf16 in a tile's row
constexpr std::size_t tile = side * depth;  // bf16 in a tile
constexpr std::size_t strip = 2 * side;     // rows that go through a kernel together

constexpr std::size_t round_up(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

#if defined(__x86_64__)

struct alignas(64) Config {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
/// All eight tiles at their full size.
inline constexpr Config config;

/// For 32 bytes along a row: sums in 0 to 3, A in 4 and 5, B in 6 and 7.
inline constexpr Config groups{.row_bytes = {64, 64, 64, 64, 32, 32, 64, 64},
                               .rows = {16, 16, 16, 16, 16, 16, 8, 8}};

/// While one lives, the thread's tiles are set up. oneDNN sets up its own at each of its kernels.
class Tiles {
 public:
  SLUICE_AMX explicit Tiles(const Config& sizes = config) { _tile_loadconfig(&sizes); }
  SLUICE_AMX ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

/// GCC 12 does not know that a tile's load reads memory: what is written before stays before.
inline void written() { std::atomic_signal_fence(std::memory_order_seq_cst); }

using kernels::load_narrow;
using kernels::transpose;

/// Up to 16 rows of `dims` values become the tiles of B whose columns they are, one for each 32
/// values; what is missing is zero. `row(i)`: where row i begins.
template <typename Row>
SLUICE_AMX inline void pack_rows(const Row& row, std::size_t count, std::size_t dims,
                                 std::uint16_t* to) {
  for (std::size_t d = 0; d < dims; d += depth, to += tile) {
    __m512i r[side];
    for (std::size_t i = 0; i < side; ++i)
      r[i] = i < count ? load_narrow(row(i) + d, dims - d) : _mm512_setzero_si512();
    transpose(r);
    for (std::size_t i = 0; i < side; ++i) _mm512_store_si512(to + i * depth, r[i]);
  }
}

#endif

}  // namespace amx

}  // namespace sluice::kernels
