// Quantised products with AVX-512 and VNNI: a group of 32 is one instruction.
#include "kernels/quant_wide.h"

#if defined(__x86_64__)
#define SLUICE_BLOCKS_VNNI [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]]
#else
#include "base/check.h"
#include "kernels/quant_plain.h"
#endif

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

/// One row of W with R rows of x.
template <BlockType T, std::size_t R>
SLUICE_BLOCKS_VNNI void quantised_row(const FewBlockRows& f, const std::uint8_t* row,
                                      std::size_t in, std::size_t o) {
  const std::int16_t* x = f.whole->whole.data();
  const WholeRows::Group* groups = f.whole->groups.data();
  const std::size_t row_groups = in / group_values;
  BlockScales scales;
  __m512 sums[R];
  float minima[R] = {};
  for (std::size_t r = 0; r < R; ++r) sums[r] = _mm512_setzero_ps();
  for (std::size_t at = 0; at < row_groups; row += bytes_of<T>()) {
    scales_wide<T>(row, scales);
    for (std::size_t g = 0; g < values_of<T>() / group_values; ++g, ++at) {
      const __m512i w = _mm512_cvtepi8_epi16(wholes<T>(row, g));
      const GroupScales& s = scales.group[g];
      for (std::size_t r = 0; r < R; ++r) {
        const WholeRows::Group& group = groups[r * row_groups + at];
        const __m512i dot = _mm512_dpwssd_epi32(_mm512_setzero_si512(), w,
                                                _mm512_loadu_si512(x + r * in + at * group_values));
        __m512 scale = _mm512_set1_ps(s.low * group.scale);
        if constexpr (T == BlockType::q6_k)
          scale = _mm512_mask_blend_ps(0xff00, scale, _mm512_set1_ps(s.high * group.scale));
        sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, sums[r]);
        if constexpr (has_minimum<T>()) minima[r] += s.minimum * group.sum;
      }
    }
  }
  for (std::size_t r = 0; r < R; ++r)
    f.y[r * f.stride + o] = _mm512_reduce_add_ps(sums[r]) + minima[r];
}

template <BlockType T>
SLUICE_BLOCKS_VNNI inline __m512 load16(const std::uint8_t* at, __mmask16 mask) {
  if constexpr (T == BlockType::f32) return _mm512_maskz_loadu_ps(mask, at);
  const __m256i halves16 = _mm256_maskz_loadu_epi16(mask, at);
  if constexpr (T == BlockType::f16) return _mm512_cvtph_ps(halves16);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves16), 16));
}

template <BlockType T>
SLUICE_BLOCKS_VNNI float plain_dot(const float* x, const std::uint8_t* row, std::size_t in) {
  constexpr std::size_t bytes = T == BlockType::f32 ? 4 : 2;
  __m512 a = _mm512_setzero_ps();
  __m512 b = a;
  std::size_t i = 0;
  for (; i + 32 <= in; i += 32) {
    a = _mm512_fmadd_ps(_mm512_loadu_ps(x + i), load16<T>(row + i * bytes, 0xffff), a);
    b = _mm512_fmadd_ps(_mm512_loadu_ps(x + i + 16), load16<T>(row + (i + 16) * bytes, 0xffff), b);
  }
  for (; i < in; i += 16) {
    const auto mask = static_cast<__mmask16>(in - i >= 16 ? 0xffffU : (1U << (in - i)) - 1U);
    a = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, x + i), load16<T>(row + i * bytes, mask), a);
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(a, b));
}

template <BlockType T>
void quantised(const FewBlockRows& f, const BlockRows& w, std::size_t begin, std::size_t end) {
  for (std::size_t o = begin; o < end; ++o) {
    const std::uint8_t* row = w.row(o);
    switch (f.rows) {
      case 1:
        quantised_row<T, 1>(f, row, w.in, o);
        break;
      case 2:
        quantised_row<T, 2>(f, row, w.in, o);
        break;
      case 3:
        quantised_row<T, 3>(f, row, w.in, o);
        break;
      default:
        quantised_row<T, 4>(f, row, w.in, o);
    }
  }
}

}  // namespace

void block_products_avx512(const FewBlockRows& f, const BlockRows& w, std::size_t begin,
                           std::size_t end) {
  by_kind(
      w.type, [&]<BlockType T>() { quantised<T>(f, w, begin, end); },
      [&]<BlockType T>() {
        for (std::size_t o = begin; o < end; ++o)
          for (std::size_t r = 0; r < f.rows; ++r)
            f.y[r * f.stride + o] = plain_dot<T>(f.x + r * w.in, w.row(o), w.in);
      });
}

#else

void block_products_avx512(const FewBlockRows&, const BlockRows&, std::size_t, std::size_t) {
  SLUICE_CHECK(false, "no such machine");
}

#endif

}  // namespace sluice::kernels
