#include <algorithm>
#include <cmath>

#include "kernels/exp_avx512.h"
#include "kernels/matvec.h"
#include "kernels/vector_math.h"

#if defined(__x86_64__)
#define SLUICE_VNNI [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni,fma")]]
#define SLUICE_AVX512_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16,fma")]]
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
SLUICE_AVX512_BF16 void avx512_bf16(const FewRows& f, const std::uint16_t* w, std::size_t begin,
                                    std::size_t end) {
  constexpr std::size_t step = 2 * lanes;
  for (std::size_t o = begin; o < end; ++o) {
    const std::uint16_t* row = w + o * f.in;
    for (std::size_t r = 0; r < f.rows; ++r) {
      const std::uint16_t* x = f.x_bf16 + r * f.in;
      __m512 a = _mm512_setzero_ps();
      __m512 b = a;
      __m512 c = a;
      __m512 d = a;
      std::size_t i = 0;
      for (; i + 4 * step <= f.in; i += 4 * step) {
        a = _mm512_dpbf16_ps(a, load32(x + i), load32(row + i));
        b = _mm512_dpbf16_ps(b, load32(x + i + step), load32(row + i + step));
        c = _mm512_dpbf16_ps(c, load32(x + i + 2 * step), load32(row + i + 2 * step));
        d = _mm512_dpbf16_ps(d, load32(x + i + 3 * step), load32(row + i + 3 * step));
      }
      for (; i + step <= f.in; i += step) a = _mm512_dpbf16_ps(a, load32(x + i), load32(row + i));
      float sum = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)));
      for (; i < f.in; ++i) sum += widen(x[i]) * widen(row[i]);
      store(f, r, o, sum);
    }
  }
}

/// Bytes times bytes, 64 an instruction. Sums are exact: 255 * 127 * 65536 fits 32 bits.
SLUICE_VNNI void vnni(const FewRows& f, const std::int8_t* w, std::size_t begin, std::size_t end) {
  constexpr std::size_t step = 4 * lanes;
  for (std::size_t o = begin; o < end; ++o) {
    const std::int8_t* row = w + o * f.in;
    for (std::size_t r = 0; r < f.rows; ++r) {
      const std::uint8_t* high = f.split.high + r * f.in;
      const std::uint8_t* low = f.split.low + r * f.in;
      __m512i a = _mm512_setzero_si512();
      __m512i b = a;
      __m512i c = a;
      __m512i d = a;
      std::size_t i = 0;
      for (; i + 2 * step <= f.in; i += 2 * step) {
        const __m512i first = _mm512_loadu_si512(row + i);
        const __m512i second = _mm512_loadu_si512(row + i + step);
        a = _mm512_dpbusd_epi32(a, _mm512_loadu_si512(high + i), first);
        b = _mm512_dpbusd_epi32(b, _mm512_loadu_si512(low + i), first);
        c = _mm512_dpbusd_epi32(c, _mm512_loadu_si512(high + i + step), second);
        d = _mm512_dpbusd_epi32(d, _mm512_loadu_si512(low + i + step), second);
      }
      std::int64_t highs = _mm512_reduce_add_epi32(_mm512_add_epi32(a, c));
      std::int64_t lows = _mm512_reduce_add_epi32(_mm512_add_epi32(b, d));
      for (; i < f.in; ++i) {
        highs += high[i] * row[i];
        lows += low[i] * row[i];
      }
      const std::int64_t sum = 256 * highs + lows - 32768 * std::int64_t{f.split.sums[o]};
      store(f, r, o, static_cast<float>(sum) * f.split.scale[r]);
    }
  }
}

#endif

}  // namespace

bool wants_split(std::size_t in) { return uses(Isa::vnni) && in <= std::size_t{1} << 16; }

float split_row(const float* x, std::size_t count, std::uint8_t* high, std::uint8_t* low) {
  float most = 0;
  for (std::size_t i = 0; i < count; ++i) most = std::max(most, std::abs(x[i]));
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
