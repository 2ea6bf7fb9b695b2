#include <algorithm>
#include <cmath>

#include "kernels/bf16_avx512.h"
#include "kernels/exp_avx512.h"
#include "kernels/matvec.h"
#include "kernels/vector_math.h"

#if defined(__x86_64__)
#define SLUICE_VNNI [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni,fma")]]
#define SLUICE_BF16_INLINE \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma"), always_inline))
#endif

namespace sluice::kernels {

namespace {

constexpr std::size_t lanes = 16;

/// Sixty-four independent sums, so that the compiler may use wide registers without reordering a
/// sum, and additions do not wait for each other.
template <typename T>
[[gnu::always_inline]] inline float dot(const float* x, const T* w, std::size_t count) {
  constexpr std::size_t wide = 4 * lanes;
  float sums[wide] = {};
  std::size_t i = 0;
  for (; i + wide <= count; i += wide)
    for (std::size_t j = 0; j < wide; ++j) sums[j] += x[i + j] * widen(w[i + j]);
  float sum = 0;
  for (; i < count; ++i) sum += x[i] * widen(w[i]);
  for (std::size_t width = wide / 2; width > 0; width /= 2)
    for (std::size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  return sum + sums[0];
}

[[gnu::always_inline]] inline void store(const FewRows& f, std::size_t r, std::size_t o,
                                         float sum) {
  f.y[r * f.out + o] =
      sum * (f.scales != nullptr ? f.scales[o] : 1.0F) + (f.bias != nullptr ? f.bias[o] : 0.0F);
}

template <typename T>
[[gnu::always_inline]] inline void any(const FewRows& f, const T* w, std::size_t begin,
                                       std::size_t end) {
  for (std::size_t o = begin; o < end; ++o)
    for (std::size_t r = 0; r < f.rows; ++r)
      store(f, r, o, dot(f.x + r * f.in, w + o * f.in, f.in));
}

SLUICE_LOOP void any_f32(const FewRows& f, const float* w, std::size_t begin, std::size_t end) {
  any(f, w, begin, end);
}
SLUICE_LOOP void any_bf16(const FewRows& f, const std::uint16_t* w, std::size_t begin,
                          std::size_t end) {
  any(f, w, begin, end);
}
SLUICE_LOOP void any_int8(const FewRows& f, const std::int8_t* w, std::size_t begin,
                          std::size_t end) {
  any(f, w, begin, end);
}

/// The largest size of a value; in sixteen parts, so that comparisons do not wait for each other.
SLUICE_LOOP float largest(const float* x, std::size_t count) {
  float parts[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) {
      const float size = std::abs(x[i + j]);
      parts[j] = size > parts[j] ? size : parts[j];
    }
  float most = 0;
  for (; i < count; ++i) most = std::max(most, std::abs(x[i]));
  for (const float part : parts) most = std::max(most, part);
  return most;
}

SLUICE_LOOP void split_values(const float* x, float inverse, std::size_t count, std::uint8_t* high,
                              std::uint8_t* low) {
  for (std::size_t i = 0; i < count; ++i) {
    // Adding half and cutting off rounds, for the sum is above zero.
    const auto whole = static_cast<std::int32_t>(x[i] * inverse + 32768.5F);
    high[i] = static_cast<std::uint8_t>(whole >> 8);
    low[i] = static_cast<std::uint8_t>(whole & 255);
  }
}

#if defined(__x86_64__)

SLUICE_AVX512 inline __m512 load16(const std::uint16_t* w) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w))), 16));
}
SLUICE_AVX512 inline __m512 load16(const std::int8_t* w) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w))));
}

/// Four sums of sixteen; what is left over one by one.
template <typename T>
SLUICE_AVX512 inline float dot_avx512(const float* x, const T* w, std::size_t count) {
  __m512 a = _mm512_setzero_ps();
  __m512 b = a;
  __m512 c = a;
  __m512 d = a;
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = _mm512_fmadd_ps(_mm512_loadu_ps(x + i), load16(w + i), a);
    b = _mm512_fmadd_ps(_mm512_loadu_ps(x + i + lanes), load16(w + i + lanes), b);
    c = _mm512_fmadd_ps(_mm512_loadu_ps(x + i + 2 * lanes), load16(w + i + 2 * lanes), c);
    d = _mm512_fmadd_ps(_mm512_loadu_ps(x + i + 3 * lanes), load16(w + i + 3 * lanes), d);
  }
  for (; i + lanes <= count; i += lanes)
    a = _mm512_fmadd_ps(_mm512_loadu_ps(x + i), load16(w + i), a);
  float sum = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)));
  for (; i < count; ++i) sum += x[i] * widen(w[i]);
  return sum;
}

template <typename T>
SLUICE_AVX512 void avx512(const FewRows& f, const T* w, std::size_t begin, std::size_t end) {
  for (std::size_t o = begin; o < end; ++o)
    for (std::size_t r = 0; r < f.rows; ++r)
      store(f, r, o, dot_avx512(f.x + r * f.in, w + o * f.in, f.in));
}

/// Thirty-two products an instruction.
SLUICE_AVX512_BF16 inline __m512bh load32(const std::uint16_t* w) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(w));
}
/// Rows [o, o + W) of the matrix with R rows of x. Four sums for each pair, so that a row's come to
/// the same bits beside any others.
template <std::size_t W, std::size_t R>
SLUICE_AVX512_BF16 void block_bf16(const FewRows& f, const std::uint16_t* w, std::size_t o,
                                   std::size_t r) {
  constexpr std::size_t step = 2 * lanes, chains = 4;
  const std::uint16_t* rows = w + o * f.in;
  const std::uint16_t* x = f.x_bf16 + r * f.in;
  __m512 sums[W][R][chains];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < W; ++v)
#pragma GCC unroll 4
    for (std::size_t j = 0; j < R; ++j)
#pragma GCC unroll 4
      for (__m512& sum : sums[v][j]) sum = _mm512_setzero_ps();
  std::size_t i = 0;
  const auto add = [&](std::size_t chain) SLUICE_BF16_INLINE {
    __m512bh wide[W];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < W; ++v) wide[v] = load32(rows + v * f.in + i);
    if constexpr (R == 1 && W == 1) read_ahead(rows + i);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < R; ++j) {
      const __m512bh some = load32(x + j * f.in + i);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < W; ++v)
        sums[v][j][chain] = _mm512_dpbf16_ps(sums[v][j][chain], some, wide[v]);
    }
    i += step;
  };
  while (i + chains * step <= f.in) {
    add(0);
    add(1);
    add(2);
    add(3);
  }
  while (i + step <= f.in) add(0);
#pragma GCC unroll 4
  for (std::size_t v = 0; v < W; ++v)
#pragma GCC unroll 4
    for (std::size_t j = 0; j < R; ++j) {
      const __m512(&s)[chains] = sums[v][j];
      float sum =
          _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
      for (std::size_t at = i; at < f.in; ++at)
        sum += widen(x[j * f.in + at]) * widen(rows[v * f.in + at]);
      store(f, r + j, o + v, sum);
    }
}

template <std::size_t W>
void rows_bf16(const FewRows& f, const std::uint16_t* w, std::size_t o) {
  std::size_t r = 0;
  for (; f.rows - r == 3 || f.rows - r > 4; r += 3) block_bf16<W, 3>(f, w, o, r);
  for (; f.rows - r >= 2; r += 2) block_bf16<W, 2>(f, w, o, r);
  if (r < f.rows) block_bf16<W, 1>(f, w, o, r);
}

void avx512_bf16(const FewRows& f, const std::uint16_t* w, std::size_t begin, std::size_t end) {
  // Alone, a row meets one row of the matrix after the other, as memory gives them.
  const std::size_t pairs_end = f.rows == 1 ? begin : begin + (end - begin) / 2 * 2;
  for (std::size_t o = begin; o < pairs_end; o += 2) rows_bf16<2>(f, w, o);
  for (std::size_t o = pairs_end; o < end; ++o) rows_bf16<1>(f, w, o);
}

/// The same for bytes times bytes, 64 an instruction. Sums are exact: 255 * 127 * 65536 fits 32
/// bits.
template <std::size_t W, std::size_t R>
SLUICE_VNNI void block_vnni(const FewRows& f, const std::int8_t* w, std::size_t o, std::size_t r) {
  constexpr std::size_t step = 4 * lanes;
  const std::int8_t* rows = w + o * f.in;
  const std::uint8_t* high = f.split.high + r * f.in;
  const std::uint8_t* low = f.split.low + r * f.in;
  __m512i sums[W][R][2];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < W; ++v)
#pragma GCC unroll 4
    for (std::size_t j = 0; j < R; ++j) sums[v][j][0] = sums[v][j][1] = _mm512_setzero_si512();
  std::size_t i = 0;
  for (; i + step <= f.in; i += step) {
    __m512i wide[W];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < W; ++v) wide[v] = _mm512_loadu_si512(rows + v * f.in + i);
    if constexpr (R == 1 && W == 1) read_ahead(rows + i);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < R; ++j) {
      const __m512i some[2] = {_mm512_loadu_si512(high + j * f.in + i),
                               _mm512_loadu_si512(low + j * f.in + i)};
#pragma GCC unroll 4
      for (std::size_t v = 0; v < W; ++v)
#pragma GCC unroll 2
        for (std::size_t part = 0; part < 2; ++part)
          sums[v][j][part] = _mm512_dpbusd_epi32(sums[v][j][part], some[part], wide[v]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t v = 0; v < W; ++v)
#pragma GCC unroll 4
    for (std::size_t j = 0; j < R; ++j) {
      std::int64_t highs = _mm512_reduce_add_epi32(sums[v][j][0]);
      std::int64_t lows = _mm512_reduce_add_epi32(sums[v][j][1]);
      for (std::size_t at = i; at < f.in; ++at) {
        highs += high[j * f.in + at] * rows[v * f.in + at];
        lows += low[j * f.in + at] * rows[v * f.in + at];
      }
      const std::int64_t sum = 256 * highs + lows - 32768 * std::int64_t{f.split.sums[o + v]};
      store(f, r + j, o + v, static_cast<float>(sum) * f.split.scale[r + j]);
    }
}

template <std::size_t W>
void rows_vnni(const FewRows& f, const std::int8_t* w, std::size_t o) {
  std::size_t r = 0;
  for (; r + 4 <= f.rows; r += 4) block_vnni<W, 4>(f, w, o, r);
  for (; r + 2 <= f.rows; r += 2) block_vnni<W, 2>(f, w, o, r);
  if (r < f.rows) block_vnni<W, 1>(f, w, o, r);
}

void vnni(const FewRows& f, const std::int8_t* w, std::size_t begin, std::size_t end) {
  const std::size_t pairs_end = f.rows == 1 ? begin : begin + (end - begin) / 2 * 2;
  for (std::size_t o = begin; o < pairs_end; o += 2) rows_vnni<2>(f, w, o);
  for (std::size_t o = pairs_end; o < end; ++o) rows_vnni<1>(f, w, o);
}

#endif

}  // namespace

std::size_t matvec_rows(WeightFormat format, std::size_t in) {
  constexpr std::size_t plain = 4, multiplied = 64;
  const bool bf16 = format == WeightFormat::bf16 && uses(Isa::bf16);
  return bf16 || (format == WeightFormat::int8 && wants_split(in)) ? multiplied : plain;
}

bool wants_split(std::size_t in) { return uses(Isa::vnni) && in <= std::size_t{1} << 16; }

float split_row(const float* x, std::size_t count, std::uint8_t* high, std::uint8_t* low) {
  const float most = wide<largest>(x, count);
  const float inverse = most == 0 ? 0 : 32767 / most;
  wide<split_values>(x, inverse, count, high, low);
  return most / 32767;
}

void matvec(const FewRows& f, const float* w, std::size_t begin, std::size_t end) {
  wide<any_f32>(f, w, begin, end);
}

void matvec(const FewRows& f, const std::uint16_t* w, std::size_t begin, std::size_t end) {
#if defined(__x86_64__)
  if (uses(Isa::bf16) && f.x_bf16 != nullptr) return avx512_bf16(f, w, begin, end);
  if (uses(Isa::avx512)) return avx512(f, w, begin, end);
#endif
  wide<any_bf16>(f, w, begin, end);
}

void matvec(const FewRows& f, const std::int8_t* w, std::size_t begin, std::size_t end) {
#if defined(__x86_64__)
  if (uses(Isa::vnni) && f.split.high != nullptr) return vnni(f, w, begin, end);
  if (uses(Isa::avx512)) return avx512(f, w, begin, end);
#endif
  wide<any_int8>(f, w, begin, end);
}

}  // namespace sluice::kernels
