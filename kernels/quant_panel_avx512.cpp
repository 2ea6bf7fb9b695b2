// Tiles against panels with AVX-512 and VNNI: two values of x and sixteen rows of the matrix an
// instruction.
#include "base/check.h"
#include "kernels/quant_panel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define SLUICE_PANEL_VNNI [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma")]]
#endif

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

constexpr std::size_t pairs = group_values / 2;

SLUICE_PANEL_VNNI inline __m512i two_of_x(const std::int16_t* at) {
  std::int32_t both = 0;
  __builtin_memcpy(&both, at, sizeof both);
  return _mm512_set1_epi32(both);
}

/// Adds `count` pairs' products, scaled. R rows' sums of whole numbers and of scaled ones: 24
/// registers.
template <std::size_t R, std::size_t count>
SLUICE_PANEL_VNNI [[gnu::always_inline]] inline void add_scaled(const std::int16_t*& w,
                                                                const std::int16_t*& x,
                                                                __m512 scale, const float* scales,
                                                                __m512 (&sums)[R]) {
  __m512i whole[R];
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) whole[r] = _mm512_setzero_si512();
#pragma GCC unroll 16
  for (std::size_t pair = 0; pair < count; ++pair, w += 2 * panel_outs, x += 2 * R) {
    const __m512i sixteen = _mm512_loadu_si512(w);
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r)
      whole[r] = _mm512_dpwssd_epi32(whole[r], sixteen, two_of_x(x + 2 * r));
  }
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r)
    sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[r]),
                              _mm512_mul_ps(scale, _mm512_set1_ps(scales[r])), sums[r]);
}

template <std::size_t R, bool halves>
SLUICE_PANEL_VNNI void multiply(const TileProduct& p, TileSums& to) {
  const std::int16_t* w = p.panel.whole.data();
  const std::int16_t* x = p.x;
  __m512 sums[R];
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) sums[r] = _mm512_setzero_ps();
  for (std::size_t g = 0; g < p.groups; ++g) {
    const __m512 low = _mm512_loadu_ps(p.panel.low.data() + g * panel_outs);
    const float* scales = p.scales + g * R;
    if constexpr (halves) {
      add_scaled<R, pairs / 2>(w, x, low, scales, sums);
      add_scaled<R, pairs / 2>(w, x, _mm512_loadu_ps(p.panel.high.data() + g * panel_outs), scales,
                               sums);
    } else {
      add_scaled<R, pairs>(w, x, low, scales, sums);
    }
    if (p.panel.minima) {
      const __m512 minimum = _mm512_loadu_ps(p.panel.minimum.data() + g * panel_outs);
#pragma GCC unroll 12
      for (std::size_t r = 0; r < R; ++r)
        sums[r] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(p.sums[g * R + r]), sums[r]);
    }
  }
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) _mm512_storeu_ps(to[r], sums[r]);
}

template <std::size_t R>
void multiply(const TileProduct& p, TileSums& to) {
  if (p.panel.halves)
    multiply<R, true>(p, to);
  else
    multiply<R, false>(p, to);
}

}  // namespace

void multiply_tile_vnni(const TileProduct& p, std::size_t rows, TileSums& to) {
  switch (rows) {
    case 2:
      return multiply<2>(p, to);
    case 4:
      return multiply<4>(p, to);
    case 6:
      return multiply<6>(p, to);
    case 8:
      return multiply<8>(p, to);
    case 10:
      return multiply<10>(p, to);
    default:
      SLUICE_CHECK(rows == tile_rows_most, "a tile's rows");
      return multiply<tile_rows_most>(p, to);
  }
}

#else

void multiply_tile_vnni(const TileProduct&, std::size_t, TileSums&) {
  SLUICE_CHECK(false, "no such machine");
}

#endif

}  // namespace sluice::kernels
