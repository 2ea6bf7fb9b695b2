// Products of few rows over blocks with AVX2: sixteen-bit multiplications, two sums of products an
// instruction. Wider registers gain nothing here (measured on a Zen 4): what is in the way is
// taking blocks apart.
#include "kernels/quant_wide.h"

#if !defined(__x86_64__)
#include "base/check.h"
#include "kernels/quant_plain.h"
#endif

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

SLUICE_BLOCKS_AVX2 inline float sum_of(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

SLUICE_BLOCKS_AVX2 inline __m256i load_x(const std::int16_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

/// The scales of a block's groups. Q6_K has two each, which go into the whole numbers: 6 bits times
/// 8 leave room for products with 16 and for the sum of two.
template <BlockType T>
SLUICE_BLOCKS_AVX2 inline void row_scales(const std::uint8_t* block, BlockScales& to) {
  if constexpr (T != BlockType::q6_k) return scales_wide<T>(block, to);
  std::uint16_t half = 0;
  std::memcpy(&half, block + first_half<T>(), sizeof half);
  for (GroupScales& group : to.group) group.low = _cvtsh_ss(half);
}
template <BlockType T>
SLUICE_BLOCKS_AVX2 inline Sixteens row_sixteens(const std::uint8_t* block, std::size_t g) {
  const Sixteens w = sixteens<T>(block, g);
  if constexpr (T != BlockType::q6_k) return w;
  const auto* scales = reinterpret_cast<const std::int8_t*>(block + 192 + 2 * g);
  return {_mm256_mullo_epi16(w.first, _mm256_set1_epi16(scales[0])),
          _mm256_mullo_epi16(w.last, _mm256_set1_epi16(scales[1]))};
}

/// One row of W with R rows of x.
template <BlockType T, std::size_t R>
SLUICE_BLOCKS_AVX2 void quantised_row(const FewBlockRows& f, const std::uint8_t* block,
                                      std::size_t in, std::size_t o) {
  const std::size_t row_groups = in / group_values;
  const std::int16_t* x = f.whole->whole.data();
  const float* x_scales = f.whole->scales.data();
  const float* x_sums = f.whole->sums.data();
  BlockScales scales;
  __m256 sums[R];
  float minima[R] = {};
  for (std::size_t r = 0; r < R; ++r) sums[r] = _mm256_setzero_ps();
  for (std::size_t at = 0; at < row_groups; block += bytes_of<T>()) {
    row_scales<T>(block, scales);
    for (std::size_t g = 0; g < values_of<T>() / group_values; ++g, ++at) {
      const Sixteens w = row_sixteens<T>(block, g);
      const GroupScales& s = scales.group[g];
      for (std::size_t r = 0; r < R; ++r) {
        const std::int16_t* from = x + r * in + at * group_values;
        const __m256i dot = _mm256_add_epi32(_mm256_madd_epi16(w.first, load_x(from)),
                                             _mm256_madd_epi16(w.last, load_x(from + 16)));
        sums[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot),
                                  _mm256_set1_ps(s.low * x_scales[r * row_groups + at]), sums[r]);
        if constexpr (has_minimum<T>()) minima[r] += s.minimum * x_sums[r * row_groups + at];
      }
    }
  }
  for (std::size_t r = 0; r < R; ++r) f.y[r * f.stride + o] = sum_of(sums[r]) + minima[r];
}

template <BlockType T>
SLUICE_BLOCKS_AVX2 inline __m256 load8(const std::uint8_t* at) {
  if constexpr (T == BlockType::f32) return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  const __m128i halves8 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  if constexpr (T == BlockType::f16) return _mm256_cvtph_ps(halves8);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves8), 16));
}

template <BlockType T>
SLUICE_BLOCKS_AVX2 float plain_dot(const float* x, const std::uint8_t* row, std::size_t in) {
  constexpr std::size_t bytes = T == BlockType::f32 ? 4 : 2;
  __m256 a = _mm256_setzero_ps();
  __m256 b = a;
  std::size_t i = 0;
  for (; i + 16 <= in; i += 16) {
    a = _mm256_fmadd_ps(_mm256_loadu_ps(x + i), load8<T>(row + i * bytes), a);
    b = _mm256_fmadd_ps(_mm256_loadu_ps(x + i + 8), load8<T>(row + (i + 8) * bytes), b);
  }
  float sum = sum_of(_mm256_add_ps(a, b));
  for (; i < in; ++i) {
    float value = 0;
    read_blocks(T, row + i * bytes, {&value, 1});
    sum += x[i] * value;
  }
  return sum;
}

template <BlockType T>
SLUICE_BLOCKS_AVX2 void read(const std::uint8_t* row, std::span<float> to) {
  BlockScales scales;
  for (std::size_t at = 0; at < to.size(); row += bytes_of<T>()) {
    scales_wide<T>(row, scales);
    for (std::size_t g = 0; g < values_of<T>() / group_values; ++g) {
      alignas(32) std::int8_t whole[group_values];
      _mm256_store_si256(reinterpret_cast<__m256i*>(whole), wholes<T>(row, g));
      const GroupScales& s = scales.group[g];
      for (std::size_t i = 0; i < group_values; i += 8, at += 8) {
        const __m256 w = _mm256_cvtepi32_ps(
            _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(whole + i))));
        _mm256_storeu_ps(to.data() + at, _mm256_fmadd_ps(w, _mm256_set1_ps(i < 16 ? s.low : s.high),
                                                         _mm256_set1_ps(s.minimum)));
      }
    }
  }
}

template <BlockType T>
void plain(const FewBlockRows& f, const BlockRows& w, std::size_t begin, std::size_t end) {
  for (std::size_t o = begin; o < end; ++o)
    for (std::size_t r = 0; r < f.rows; ++r)
      f.y[r * f.stride + o] = plain_dot<T>(f.x + r * w.in, w.row(o), w.in);
}

template <BlockType T>
void quantised(const FewBlockRows& f, const BlockRows& w, std::size_t begin, std::size_t end) {
  w.each_row(begin, end, [&](std::size_t o, const std::uint8_t* row) {
    if (f.rows == 1) quantised_row<T, 1>(f, row, w.in, o);
    if (f.rows == 2) quantised_row<T, 2>(f, row, w.in, o);
    if (f.rows == 3) quantised_row<T, 3>(f, row, w.in, o);
    if (f.rows == 4) quantised_row<T, 4>(f, row, w.in, o);
  });
}

}  // namespace

void block_products_avx2(const FewBlockRows& f, const BlockRows& w, std::size_t begin,
                         std::size_t end) {
  if (w.type == BlockType::f32) return plain<BlockType::f32>(f, w, begin, end);
  if (w.type == BlockType::f16) return plain<BlockType::f16>(f, w, begin, end);
  if (w.type == BlockType::bf16) return plain<BlockType::bf16>(f, w, begin, end);
  with_quantised(w.type, [&]<BlockType T>() { quantised<T>(f, w, begin, end); });
}

void read_blocks_avx2(BlockType type, const std::uint8_t* row, std::span<float> to) {
  with_quantised(type, [&]<BlockType T>() { read<T>(row, to); });
}

#else

void block_products_avx2(const FewBlockRows&, const BlockRows&, std::size_t, std::size_t) {
  SLUICE_CHECK(false, "no such machine");
}
void read_blocks_avx2(BlockType, const std::uint8_t*, std::span<float>) {
  SLUICE_CHECK(false, "no such machine");
}

#endif

}  // namespace sluice::kernels
