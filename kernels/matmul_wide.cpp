#include "kernels/matmul_wide.h"

#include "base/check.h"
#include "kernels/matmul_strips.h"

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

using namespace strips;

SLUICE_AVX512 inline __mmask16 lanes_here(std::size_t count) {
  return count >= lanes ? 0xffff : tail_mask(count);
}

/// Up to sixteen values; those behind `count` are zero. Of x: rounded to bf16.
SLUICE_AVX512 inline __m512i load_wide(const float* from, std::size_t count) {
  const __m512i bits = _mm512_castps_si512(_mm512_maskz_loadu_ps(lanes_here(count), from));
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  return _mm512_and_si512(up, _mm512_set1_epi32(-0x10000));
}
SLUICE_AVX512 inline __m512i load_wide(const std::uint16_t* from, std::size_t count) {
  const __m256i bits = _mm256_maskz_loadu_epi16(lanes_here(count), from);
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
}
SLUICE_AVX512 inline __m512i load_wide(const std::int8_t* from, std::size_t count) {
  const __m128i bytes = _mm_maskz_loadu_epi8(lanes_here(count), from);
  return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
}

/// Rows [12 i, 12 i + 12) of x as a strip; what is missing is zero.
SLUICE_AVX512 void wide_strip(const float* x, const Part& part, std::size_t i, Word* to) {
  const std::size_t in = part.weight.in();
  const float* from = x + i * strip * in + part.dim;
  const std::size_t count = std::min(strip, part.rows - i * strip);
  for (std::size_t d = 0; d < part.dims; d += lanes) {
    __m512i r[lanes];
    for (std::size_t row = 0; row < lanes; ++row)
      r[row] = row < count ? load_wide(from + row * in + d, part.dims - d) : _mm512_setzero_si512();
    transpose(r);
    for (std::size_t word = 0; word < lanes; ++word, to += strip) _mm512_storeu_si512(to, r[word]);
  }
}

/// Half a panel: `count` rows of weights from `from`, and zeros for the others.
template <typename T>
SLUICE_AVX512 void wide_rows(const T* from, std::size_t in, std::size_t count, std::size_t dims,
                             Word* to) {
  for (std::size_t d = 0; d < dims; d += lanes) {
    __m512i r[lanes];
    for (std::size_t row = 0; row < lanes; ++row)
      r[row] = row < count ? load_wide(from + row * in + d, dims - d) : _mm512_setzero_si512();
    transpose(r);
    for (std::size_t word = 0; word < lanes; ++word, to += panel_outs)
      _mm512_store_si512(to, r[word]);
  }
}

/// The first R rows of a strip.
template <std::size_t R>
SLUICE_AVX512 void multiply_wide(const Word* x, const Word* w, std::size_t words, Sums& to) {
  __m512 sums[R][2];
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) sums[r][0] = sums[r][1] = _mm512_setzero_ps();
  for (std::size_t i = 0; i < words; ++i, x += strip, w += panel_outs) {
    const __m512 low = _mm512_castsi512_ps(_mm512_load_si512(w));
    const __m512 high = _mm512_castsi512_ps(_mm512_load_si512(w + lanes));
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r) {
      const __m512 one = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(x[r])));
      sums[r][0] = _mm512_fmadd_ps(one, low, sums[r][0]);
      sums[r][1] = _mm512_fmadd_ps(one, high, sums[r][1]);
    }
  }
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) {
    _mm512_store_ps(to.of[r], sums[r][0]);
    _mm512_store_ps(to.of[r] + lanes, sums[r][1]);
  }
}

/// Values in f32.
struct Singles {
  static constexpr std::size_t values = 1;
  static constexpr std::size_t dims_most = 1024;
  /// Of weights that a thread holds in the second cache.
  static constexpr std::size_t group_words = 128 << 10;

  static void lay_strip(const float* x, const Part& part, std::size_t i, Word* to) {
    wide_strip(x, part, i, to);
  }
  template <typename T>
  static void lay_rows(const T* from, std::size_t in, std::size_t count, std::size_t dims,
                       Word* to) {
    wide_rows(from, in, count, dims, to);
  }
  template <std::size_t R>
  static void multiply(const Word* x, const Word* w, std::size_t words, Sums& to) {
    multiply_wide<R>(x, w, words, to);
  }
};

}  // namespace

void matmul_wide(std::span<const float> x, const Weight& weight, const float* bias,
                 std::span<float> y, std::size_t rows, const Finish& finish) {
  multiply_all<Singles>(x, weight, bias, y, rows, finish);
}

#else

void matmul_wide(std::span<const float>, const Weight&, const float*, std::span<float>, std::size_t,
                 const Finish&) {
  SLUICE_CHECK(false, "no such machine");
}

#endif

}  // namespace sluice::kernels
