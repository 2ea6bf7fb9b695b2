// Sixteen rows of a matrix at a time, a group of 32 values each, turned by AVX-512 into what meets
// x: four values of all sixteen rows in a register, as bytes without a sign. For
// kernels/quant_panel_vnni.cpp only.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/quant_panel.h"

#define SLUICE_PANEL_VNNI [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]]
#define SLUICE_PANEL_INLINE SLUICE_PANEL_VNNI [[gnu::always_inline]] inline

namespace sluice::kernels {

/// Bytes are whole numbers plus this, a power of two, or whole numbers that are never negative.
template <BlockType T>
constexpr int offset_bits() {
  switch (T) {
    case BlockType::q8_0:
      return 7;
    case BlockType::q4_0:
      return 3;
    case BlockType::q5_0:
      return 4;
    case BlockType::q6_k:
      return 5;
    default:
      return 0;
  }
}

/// Four bytes of each row.
SLUICE_PANEL_INLINE __m512i fours(const SixteenRows& rows) {
  __m128i part[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    std::int32_t at[4];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) std::memcpy(&at[j], rows.row(4 * i + j), 4);
    part[i] = _mm_insert_epi32(_mm_cvtsi32_si128(at[0]), at[1], 1);
    part[i] = _mm_insert_epi32(part[i], at[2], 2);
    part[i] = _mm_insert_epi32(part[i], at[3], 3);
  }
  const __m512i low = _mm512_inserti32x4(_mm512_castsi128_si512(part[0]), part[1], 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(low, part[2], 2), part[3], 3);
}

SLUICE_PANEL_INLINE __m128i sixteen(const std::uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
/// Sixteen bytes of each row, four a register.
SLUICE_PANEL_INLINE void sixteens_turned(const SixteenRows& rows, __m512i* to) {
  __m512i a[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    a[i] = _mm512_castsi128_si512(sixteen(rows.row(i)));
    a[i] = _mm512_inserti32x4(a[i], sixteen(rows.row(4 + i)), 1);
    a[i] = _mm512_inserti32x4(a[i], sixteen(rows.row(8 + i)), 2);
    a[i] = _mm512_inserti32x4(a[i], sixteen(rows.row(12 + i)), 3);
  }
  const __m512i b0 = _mm512_unpacklo_epi32(a[0], a[1]);
  const __m512i b1 = _mm512_unpackhi_epi32(a[0], a[1]);
  const __m512i b2 = _mm512_unpacklo_epi32(a[2], a[3]);
  const __m512i b3 = _mm512_unpackhi_epi32(a[2], a[3]);
  to[0] = _mm512_unpacklo_epi64(b0, b2);
  to[1] = _mm512_unpackhi_epi64(b0, b2);
  to[2] = _mm512_unpacklo_epi64(b1, b3);
  to[3] = _mm512_unpackhi_epi64(b1, b3);
}

/// The low and the high halves of each four bytes, which are f16.
SLUICE_PANEL_INLINE __m512 low_halves(__m512i values) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(values));
}
SLUICE_PANEL_INLINE __m512 high_halves(__m512i values) {
  return low_halves(_mm512_srli_epi32(values, 16));
}

/// Bits 4 j to 4 j + 3 of each number, as 16 in the four bytes.
SLUICE_PANEL_INLINE __m512i spread_bits(__m512i bits, unsigned j) {
  const __m512i four = _mm512_and_si512(_mm512_srli_epi32(bits, 4 * j), _mm512_set1_epi32(15));
  return _mm512_and_si512(_mm512_mullo_epi32(four, _mm512_set1_epi32(0x02040810)),
                          _mm512_set1_epi32(0x10101010));
}

/// A group's whole numbers, and what they are multiplied by, as in GroupScales.
struct TurnedGroup {
  __m512i whole[8];  // [4 j, 4 j + 4) of each row
  __m512 low, high, minimum;
};

/// What all groups of sixteen rows' block need.
template <BlockType T>
struct TurnedBlock {
  SixteenRows rows;
  __m512 d, m;
  __m512i scales[4];  // a byte for each group; of Q4_K and Q5_K the minima behind them

  SLUICE_PANEL_INLINE explicit TurnedBlock(const SixteenRows& at) : rows(at) {
    if constexpr (T == BlockType::q6_k) {
      sixteens_turned(behind(192), scales);
      d = high_halves(fours(behind(206)));
      return;
    }
    const __m512i both = fours(rows);
    d = low_halves(both);
    if constexpr (has_minimum<T>()) m = high_halves(both);
    if constexpr (T != BlockType::q4_k && T != BlockType::q5_k) return;
    const __m512i six = _mm512_set1_epi32(0x3f3f3f3f);
    const __m512i four = _mm512_set1_epi32(0x0f0f0f0f);
    const __m512i two = _mm512_set1_epi32(0x30303030);
    const __m512i a = fours(behind(4));
    const __m512i b = fours(behind(8));
    const __m512i c = fours(behind(12));
    scales[0] = _mm512_and_si512(a, six);
    scales[1] =
        _mm512_or_si512(_mm512_and_si512(c, four), _mm512_and_si512(_mm512_srli_epi32(a, 2), two));
    scales[2] = _mm512_and_si512(b, six);
    scales[3] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(c, 4), four),
                                _mm512_and_si512(_mm512_srli_epi32(b, 2), two));
  }

  SLUICE_PANEL_INLINE SixteenRows behind(std::size_t bytes) const {
    return {rows.first + bytes, rows.stride};
  }
  /// Byte `at` of the scales, with its sign.
  SLUICE_PANEL_INLINE __m512 scale(std::size_t at) const {
    const __m128i up = _mm_cvtsi32_si128(static_cast<int>(24 - at % 4 * 8));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_sll_epi32(scales[at / 4], up), 24));
  }

  SLUICE_PANEL_INLINE void group(std::size_t g, TurnedGroup& to) const {
    to.low = d;
    if constexpr (has_minimum<T>()) to.minimum = m;
    if constexpr (T == BlockType::q4_k || T == BlockType::q5_k) {
      to.low = _mm512_mul_ps(d, scale(g));
      to.minimum = _mm512_mul_ps(_mm512_sub_ps(_mm512_setzero_ps(), m), scale(8 + g));
    }
    if constexpr (T == BlockType::q6_k) {
      to.low = _mm512_mul_ps(d, scale(2 * g));
      to.high = _mm512_mul_ps(d, scale(2 * g + 1));
    }
    wholes(g, to.whole);
  }

 private:
  SLUICE_PANEL_INLINE void wholes(std::size_t g, __m512i (&to)[8]) const {
    const __m512i half = _mm512_set1_epi8(15);
    if constexpr (T == BlockType::q8_0) {
      sixteens_turned(behind(2), to);
      sixteens_turned(behind(18), to + 4);
#pragma GCC unroll 8
      for (__m512i& four : to) four = _mm512_xor_si512(four, _mm512_set1_epi8(-128));
      return;
    }
    if constexpr (values_of<T>() == group_values) {
      constexpr bool five = T == BlockType::q5_0 || T == BlockType::q5_1;
      constexpr std::size_t bits = has_minimum<T>() ? 4 : 2;
      sixteens_turned(behind(bits + (five ? 4 : 0)), to);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < 4; ++j) {
        to[j + 4] = _mm512_and_si512(_mm512_srli_epi32(to[j], 4), half);
        to[j] = _mm512_and_si512(to[j], half);
      }
      if constexpr (!five) return;
      const __m512i fifth = fours(behind(bits));
#pragma GCC unroll 8
      for (unsigned j = 0; j < 8; ++j) to[j] = _mm512_or_si512(to[j], spread_bits(fifth, j));
      return;
    }
    constexpr bool six = T == BlockType::q6_k;
    constexpr std::size_t start = T == BlockType::q4_k ? 16 : T == BlockType::q5_k ? 48 : 0;
    const std::size_t at = start + (six ? g / 4 * 64 + g % 2 * 32 : g / 2 * 32);
    const bool high = six ? g % 4 > 1 : g % 2 != 0;
    sixteens_turned(behind(at), to);
    sixteens_turned(behind(at + 16), to + 4);
    const __m128i down = _mm_cvtsi32_si128(high ? 4 : 0);
#pragma GCC unroll 8
    for (__m512i& four : to) four = _mm512_and_si512(_mm512_srl_epi32(four, down), half);
    if constexpr (T == BlockType::q4_k) return;
    __m512i more[8];
    const std::size_t upper = six ? 128 + g / 4 * 32 : 16;
    sixteens_turned(behind(upper), more);
    sixteens_turned(behind(upper + 16), more + 4);
    const __m128i by = _mm_cvtsi32_si128(static_cast<int>(six ? g % 4 * 2 : g));
    const __m512i kept = _mm512_set1_epi8(six ? 3 : 1);
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j)
      to[j] = _mm512_or_si512(
          to[j], _mm512_slli_epi32(_mm512_and_si512(_mm512_srl_epi32(more[j], by), kept), 4));
  }
};

}  // namespace sluice::kernels
#endif
