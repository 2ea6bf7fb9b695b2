#include "kernels/matmul_bf16.h"

#include "base/check.h"
#include "kernels/bf16_avx512.h"
#include "kernels/matmul_strips.h"

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

using namespace strips;

constexpr std::size_t depth = 2 * lanes;  // values of a row that are laid out together

/// Rows [12 i, 12 i + 12) of x as a strip; what is missing is zero.
SLUICE_AVX512_BF16 void strip_of_pairs(const float* x, const Part& part, std::size_t i, Word* to) {
  const std::size_t in = part.weight.in();
  const float* from = x + i * strip * in + part.dim;
  const std::size_t count = std::min(strip, part.rows - i * strip);
  for (std::size_t d = 0; d < part.dims; d += depth) {
    __m512i r[lanes];
    for (std::size_t row = 0; row < lanes; ++row)
      r[row] =
          row < count ? load_narrow(from + row * in + d, part.dims - d) : _mm512_setzero_si512();
    transpose(r);
    for (std::size_t pair = 0; pair < lanes; ++pair, to += strip) _mm512_storeu_si512(to, r[pair]);
  }
}

/// Half a panel: `count` rows of weights from `from`, and zeros for the others.
template <typename T>
SLUICE_AVX512_BF16 void rows_of_pairs(const T* from, std::size_t in, std::size_t count,
                                      std::size_t dims, Word* to) {
  for (std::size_t d = 0; d < dims; d += depth) {
    __m512i r[lanes];
    for (std::size_t row = 0; row < lanes; ++row)
      r[row] = row < count ? load_narrow(from + row * in + d, dims - d) : _mm512_setzero_si512();
    transpose(r);
    for (std::size_t pair = 0; pair < lanes; ++pair, to += panel_outs)
      _mm512_store_si512(to, r[pair]);
  }
}

/// The first R rows of a strip.
template <std::size_t R>
SLUICE_AVX512_BF16 void multiply_pairs(const Word* x, const Word* w, std::size_t pairs, Sums& to) {
  __m512 sums[R][2];
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) sums[r][0] = sums[r][1] = _mm512_setzero_ps();
  for (std::size_t i = 0; i < pairs; ++i, x += strip, w += panel_outs) {
    const auto low = reinterpret_cast<__m512bh>(_mm512_load_si512(w));
    const auto high = reinterpret_cast<__m512bh>(_mm512_load_si512(w + lanes));
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r) {
      const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(x[r])));
      sums[r][0] = _mm512_dpbf16_ps(sums[r][0], pair, low);
      sums[r][1] = _mm512_dpbf16_ps(sums[r][1], pair, high);
    }
  }
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) {
    _mm512_store_ps(to.of[r], sums[r][0]);
    _mm512_store_ps(to.of[r] + lanes, sums[r][1]);
  }
}

/// Pairs of values along a row.
struct Pairs {
  static constexpr std::size_t values = 2;
  /// A longer row is cut, so that a panel stays in the second cache.
  static constexpr std::size_t dims_most = bf16_gated_in_most;
  /// Of weights that a thread holds there.
  static constexpr std::size_t group_words = 96 << 10;

  static void lay_strip(const float* x, const Part& part, std::size_t i, Word* to) {
    strip_of_pairs(x, part, i, to);
  }
  template <typename T>
  static void lay_rows(const T* from, std::size_t in, std::size_t count, std::size_t dims,
                       Word* to) {
    rows_of_pairs(from, in, count, dims, to);
  }
  template <std::size_t R>
  static void multiply(const Word* x, const Word* w, std::size_t pairs, Sums& to) {
    multiply_pairs<R>(x, w, pairs, to);
  }
};

}  // namespace

void matmul_bf16(std::span<const float> x, const Weight& weight, const float* bias,
                 std::span<float> y, std::size_t rows, const Finish& finish) {
  multiply_all<Pairs>(x, weight, bias, y, rows, finish);
}

#else

void matmul_bf16(std::span<const float>, const Weight&, const float*, std::span<float>, std::size_t,
                 const Finish&) {
  SLUICE_CHECK(false, "no products of bf16 on this processor");
}

#endif

}  // namespace sluice::kernels
