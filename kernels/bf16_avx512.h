// Rows of bf16 in AVX-512 registers: what products over pairs along a row share. For kernels only;
// ask `uses(Isa::bf16)` first.
#pragma once

#include <cstddef>

#include "kernels/isa.h"
#include "kernels/square_avx512.h"

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

}  // namespace sluice::kernels
#endif
