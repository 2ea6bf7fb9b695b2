// Rows of bf16 and of 32-bit values in AVX-512 registers: what products over pairs along a row
// share. For kernels only; ask `uses(Isa::bf16)` first.
#pragma once

#include <cstddef>

#include "kernels/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define SLUICE_AVX512_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")]]

namespace sluice::kernels {

/// Up to 32 values as bf16; those behind `count` are zero.
SLUICE_AVX512_BF16 inline __m512i load_narrow(const float* from, std::size_t count) {
  constexpr std::size_t half = 16;
  const __mmask32 here = count >= 2 * half ? ~0U : (1U << count) - 1U;
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(here), from);
  const __m512 high =
      here >> half == 0 ? _mm512_setzero_ps()
                        : _mm512_maskz_loadu_ps(static_cast<__mmask16>(here >> half), from + half);
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// Thirty-two whole numbers of a byte as bf16, which keeps them. Those behind `count` are zero.
SLUICE_AVX512_BF16 inline __m512i load_narrow(const std::int8_t* from, std::size_t count) {
  const __mmask32 here = count >= 32 ? ~0U : (1U << count) - 1U;
  const __m256i bytes = _mm256_maskz_loadu_epi8(here, from);
  const __m512 low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(bytes)));
  const __m512 high = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(bytes, 1)));
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}
SLUICE_AVX512_BF16 inline __m512i load_narrow(const std::uint16_t* from, std::size_t count) {
  return _mm512_maskz_loadu_epi16(count >= 32 ? ~0U : (1U << count) - 1U, from);
}

/// Sixteen rows of sixteen 32-bit values: rows become columns.
SLUICE_AVX512_BF16 inline void transpose(__m512i (&r)[16]) {
  constexpr std::size_t side = 16;
  __m512i t[side];
  for (std::size_t i = 0; i < side; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (std::size_t i = 0; i < side; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

}  // namespace sluice::kernels
#endif
