// Panels and tiles with AVX2: two values of x and eight rows of the matrix an instruction.
#include "base/check.h"
#include "kernels/quant_panel.h"
#include "kernels/quant_wide.h"

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

constexpr std::size_t lanes = 8;
constexpr std::size_t pairs = group_values / 2;

SLUICE_BLOCKS_AVX2 inline __m256i eight(const std::int16_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
SLUICE_BLOCKS_AVX2 inline void put(std::int16_t* at, __m256i values) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), values);
}
SLUICE_BLOCKS_AVX2 inline __m256i halves_of(__m256i a, __m256i b, bool high) {
  return high ? _mm256_permute2x128_si256(a, b, 0x31) : _mm256_permute2x128_si256(a, b, 0x20);
}

/// Eight rows of eight pairs become eight pairs of eight rows.
SLUICE_BLOCKS_AVX2 inline void turn(const std::int16_t* from, std::size_t from_stride,
                                    std::int16_t* to, std::size_t to_stride) {
  __m256i a[8], b[8];
  for (std::size_t i = 0; i < 8; ++i) a[i] = eight(from + i * from_stride);
  for (std::size_t i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (std::size_t i = 0; i < 8; i += 4)
    for (std::size_t j = 0; j < 2; ++j) {
      a[i + 2 * j] = _mm256_unpacklo_epi64(b[i + j], b[i + j + 2]);
      a[i + 2 * j + 1] = _mm256_unpackhi_epi64(b[i + j], b[i + j + 2]);
    }
  for (std::size_t i = 0; i < 4; ++i) {
    put(to + i * to_stride, halves_of(a[i], a[i + 4], false));
    put(to + (i + 4) * to_stride, halves_of(a[i], a[i + 4], true));
  }
}

/// Sixteen rows' group.
SLUICE_BLOCKS_AVX2 inline void turn_group(const std::int16_t (&rows)[panel_outs][group_values],
                                          std::int16_t* to) {
  for (std::size_t o = 0; o < panel_outs; o += lanes)
    for (std::size_t pair = 0; pair < pairs; pair += lanes)
      turn(&rows[o][2 * pair], group_values, to + (pair * panel_outs + o) * 2, panel_outs * 2);
}

template <BlockType T>
SLUICE_BLOCKS_AVX2 void fill(const BlockRows& w, std::size_t begin, std::size_t count,
                             Panel& panel) {
  constexpr std::size_t groups = values_of<T>() / group_values;
  alignas(32) std::int16_t rows[groups][panel_outs][group_values] = {};
  const std::uint8_t* block[panel_outs];
  for (std::size_t o = 0; o < count; ++o) block[o] = w.row(begin + o);
  BlockScales scales;
  for (std::size_t at = 0; at < w.in / group_values; at += groups) {
    for (std::size_t o = 0; o < count; ++o) {
      scales_wide<T>(block[o], scales);
      for (std::size_t g = 0; g < groups; ++g) {
        const Sixteens whole = sixteens<T>(block[o], g);
        put(rows[g][o], whole.first);
        put(rows[g][o] + 16, whole.last);
        const std::size_t place = (at + g) * panel_outs + o;
        panel.low[place] = scales.group[g].low;
        panel.high[place] = scales.group[g].high;
        panel.minimum[place] = scales.group[g].minimum;
      }
      block[o] += bytes_of<T>();
    }
    for (std::size_t g = 0; g < groups; ++g)
      turn_group(rows[g], panel.whole.data() + (at + g) * group_values * panel_outs);
  }
}

SLUICE_BLOCKS_AVX2 inline __m256i two_of_x(const std::int16_t* at) {
  std::int32_t both = 0;
  std::memcpy(&both, at, sizeof both);
  return _mm256_set1_epi32(both);
}

/// R rows' sums of `count` pairs: 12 registers. `step`: from a pair of x to the next.
template <std::size_t R, std::size_t count>
SLUICE_BLOCKS_AVX2 [[gnu::always_inline]] inline void add_scaled(
    const std::int16_t* w, const std::int16_t* x, std::size_t step, const float* w_scales,
    const float* x_scales, __m256 (&sums)[R][2]) {
  __m256i whole[R][2];
#pragma GCC unroll 6
  for (std::size_t r = 0; r < R; ++r) whole[r][0] = whole[r][1] = _mm256_setzero_si256();
  for (std::size_t pair = 0; pair < count; ++pair, w += 2 * panel_outs, x += step) {
    const __m256i first = eight(w);
    const __m256i second = eight(w + 2 * lanes);
#pragma GCC unroll 6
    for (std::size_t r = 0; r < R; ++r) {
      const __m256i two = two_of_x(x + 2 * r);
      whole[r][0] = _mm256_add_epi32(whole[r][0], _mm256_madd_epi16(first, two));
      whole[r][1] = _mm256_add_epi32(whole[r][1], _mm256_madd_epi16(second, two));
      // One row after the other: otherwise the compiler begins with all products, for which there
      // are no registers left.
      asm volatile("" : "+x"(whole[r][0]), "+x"(whole[r][1]) : : "memory");
    }
  }
#pragma GCC unroll 6
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t i = 0; i < 2; ++i)
      sums[r][i] = _mm256_fmadd_ps(
          _mm256_cvtepi32_ps(whole[r][i]),
          _mm256_mul_ps(_mm256_loadu_ps(w_scales + i * lanes), _mm256_set1_ps(x_scales[r])),
          sums[r][i]);
}

/// R of a tile's `rows`, from `first` on.
template <std::size_t R>
SLUICE_BLOCKS_AVX2 void multiply(const Panel& panel, const TileProduct& p, std::size_t rows,
                                 std::size_t first, TileSums& to) {
  __m256 sums[R][2];
  for (std::size_t r = 0; r < R; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_ps();
  const std::int16_t* w = panel.whole.data();
  const std::int16_t* x = p.x + 2 * first;
  for (std::size_t g = 0; g < p.groups; ++g) {
    const float* low = panel.low.data() + g * panel_outs;
    const float* scales = p.scales + g * rows + first;
    if (panel.kind == PanelKind::halves) {
      add_scaled<R, pairs / 2>(w, x, 2 * rows, low, scales, sums);
      add_scaled<R, pairs / 2>(w + pairs * panel_outs, x + pairs * rows, 2 * rows,
                               panel.high.data() + g * panel_outs, scales, sums);
    } else {
      add_scaled<R, pairs>(w, x, 2 * rows, low, scales, sums);
    }
    w += 2 * pairs * panel_outs;
    x += 2 * pairs * rows;
    if (panel.kind != PanelKind::minima) continue;
    const float* minimum = panel.minimum.data() + g * panel_outs;
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t i = 0; i < 2; ++i)
        sums[r][i] = _mm256_fmadd_ps(_mm256_loadu_ps(minimum + i * lanes),
                                     _mm256_set1_ps(p.sums[g * rows + first + r]), sums[r][i]);
  }
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t i = 0; i < 2; ++i) _mm256_storeu_ps(to[first + r] + i * lanes, sums[r][i]);
}

}  // namespace

void fill_panel_avx2(const BlockRows& w, std::size_t begin, std::size_t count, Panel& panel) {
  with_quantised(w.type, [&]<BlockType T>() { fill<T>(w, begin, count, panel); });
}

void multiply_tile_avx2(const Panel& panel, const TileProduct& p, std::size_t rows, TileSums& to) {
  // Two rows alone take almost as long as four: eight are four and four.
  for (std::size_t first = 0; first < rows;) {
    const std::size_t left = rows - first;
    const std::size_t count = left == 8 ? 4 : std::min<std::size_t>(left, 6);
    if (count == 6) multiply<6>(panel, p, rows, first, to);
    if (count == 4) multiply<4>(panel, p, rows, first, to);
    if (count == 2) multiply<2>(panel, p, rows, first, to);
    first += count;
  }
}

#else

void fill_panel_avx2(const BlockRows&, std::size_t, std::size_t, Panel&) {
  SLUICE_CHECK(false, "no such machine");
}
void multiply_tile_avx2(const Panel&, const TileProduct&, std::size_t, TileSums&) {
  SLUICE_CHECK(false, "no such machine");
}

#endif

}  // namespace sluice::kernels
