// Sixteen rows of a matrix at a time, a group of 32 values each, turned by AVX-512 into what meets
// x: four values of all sixteen rows in a register, as bytes without a sign. For
// kernels/quant_panel_*.cpp only.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/turn_rows.h"

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

/// Sixteen rows' block where it lies.
struct BlocksAsTheyLie {
  SixteenRows rows;

  SLUICE_PANEL_INLINE SixteenRows behind(std::size_t bytes) const {
    return {rows.first + bytes, rows.stride};
  }
  SLUICE_PANEL_INLINE __m512i four(std::size_t bytes) const { return fours(behind(bytes)); }
  SLUICE_PANEL_INLINE void sixteen(std::size_t bytes, __m512i* to) const {
    sixteens_turned(behind(bytes), to);
  }
  SLUICE_PANEL_INLINE void thirty_two(std::size_t bytes, __m512i* to) const {
    thirty_twos_turned(behind(bytes), to);
  }
};

/// The same, turned in whole: its four bytes one after the other.
struct BlocksTurned {
  const __m512i* fours;

  SLUICE_PANEL_INLINE __m512i four(std::size_t bytes) const { return fours[bytes / 4]; }
  SLUICE_PANEL_INLINE void sixteen(std::size_t bytes, __m512i* to) const {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) to[i] = fours[bytes / 4 + i];
  }
  SLUICE_PANEL_INLINE void thirty_two(std::size_t bytes, __m512i* to) const {
    sixteen(bytes, to);
    sixteen(bytes + 16, to + 4);
  }
};
/// Of types whose parts stand at whole fours of bytes.
template <BlockType T>
constexpr bool turns_whole() {
  return bytes_of<T>() % 4 == 0;
}

/// What all groups of sixteen rows' block need.
template <BlockType T, typename Source = BlocksAsTheyLie>
struct TurnedBlock {
  Source from;
  __m512 d, m;
  __m512i scales[4];  // a byte for each group; of Q4_K and Q5_K the minima behind them

  SLUICE_PANEL_INLINE explicit TurnedBlock(const Source& at) : from(at) {
    if constexpr (T == BlockType::q6_k) {
      from.sixteen(192, scales);
      d = high_halves(from.four(206));
      return;
    }
    const __m512i both = from.four(0);
    d = low_halves(both);
    if constexpr (has_minimum<T>()) m = high_halves(both);
    if constexpr (T != BlockType::q4_k && T != BlockType::q5_k) return;
    const __m512i six = _mm512_set1_epi32(0x3f3f3f3f);
    const __m512i four = _mm512_set1_epi32(0x0f0f0f0f);
    const __m512i two = _mm512_set1_epi32(0x30303030);
    const __m512i a = from.four(4);
    const __m512i b = from.four(8);
    const __m512i c = from.four(12);
    scales[0] = _mm512_and_si512(a, six);
    scales[1] =
        _mm512_or_si512(_mm512_and_si512(c, four), _mm512_and_si512(_mm512_srli_epi32(a, 2), two));
    scales[2] = _mm512_and_si512(b, six);
    scales[3] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(c, 4), four),
                                _mm512_and_si512(_mm512_srli_epi32(b, 2), two));
  }

  /// Byte `at` of the scales, with its sign.
  SLUICE_PANEL_INLINE __m512 scale(std::size_t at) const {
    const __m128i up = _mm_cvtsi32_si128(static_cast<int>(24 - at % 4 * 8));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_sll_epi32(scales[at / 4], up), 24));
  }

  SLUICE_PANEL_INLINE void group(std::size_t g, TurnedGroup& to) const {
    factors(g, to);
    wholes(g, to.whole);
  }
  /// Without the whole numbers.
  SLUICE_PANEL_INLINE void factors(std::size_t g, TurnedGroup& to) const {
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
  }

 private:
  SLUICE_PANEL_INLINE void wholes(std::size_t g, __m512i (&to)[8]) const {
    const __m512i half = _mm512_set1_epi8(15);
    if constexpr (T == BlockType::q8_0) {
      from.thirty_two(2, to);
#pragma GCC unroll 8
      for (__m512i& four : to) four = _mm512_xor_si512(four, _mm512_set1_epi8(-128));
      return;
    }
    if constexpr (values_of<T>() == group_values) {
      constexpr bool five = T == BlockType::q5_0 || T == BlockType::q5_1;
      constexpr std::size_t bits = has_minimum<T>() ? 4 : 2;
      from.sixteen(bits + (five ? 4 : 0), to);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < 4; ++j) {
        to[j + 4] = _mm512_and_si512(_mm512_srli_epi32(to[j], 4), half);
        to[j] = _mm512_and_si512(to[j], half);
      }
      if constexpr (!five) return;
      const __m512i fifth = from.four(bits);
#pragma GCC unroll 8
      for (unsigned j = 0; j < 8; ++j) to[j] = _mm512_or_si512(to[j], spread_bits(fifth, j));
      return;
    }
    constexpr bool six = T == BlockType::q6_k;
    constexpr std::size_t start = T == BlockType::q4_k ? 16 : T == BlockType::q5_k ? 48 : 0;
    const std::size_t at = start + (six ? g / 4 * 64 + g % 2 * 32 : g / 2 * 32);
    const bool high = six ? g % 4 > 1 : g % 2 != 0;
    from.thirty_two(at, to);
    const __m128i down = _mm_cvtsi32_si128(high ? 4 : 0);
#pragma GCC unroll 8
    for (__m512i& four : to) four = _mm512_and_si512(_mm512_srl_epi32(four, down), half);
    if constexpr (T == BlockType::q4_k) return;
    __m512i more[8];
    const std::size_t upper = six ? 128 + g / 4 * 32 : 16;
    from.thirty_two(upper, more);
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
