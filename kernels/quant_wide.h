// What AVX2 makes of a group of each block type, for products of few rows and for panels. For
// kernels/quant_*avx2.cpp and kernels/quant_panel_amx.cpp only.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/quant_plain.h"

#define SLUICE_BLOCKS_AVX2 [[gnu::target("avx2,fma,f16c")]]

namespace sluice::kernels {

SLUICE_BLOCKS_AVX2 inline __m256i load32(const std::uint8_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

/// Sixteen bytes' low halves, then their high halves.
SLUICE_BLOCKS_AVX2 inline __m256i nibbles(const std::uint8_t* at) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  const __m256i both = _mm256_srlv_epi32(_mm256_broadcastsi128_si256(bytes),
                                         _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/// Bit i of 32 as 16 in byte i.
SLUICE_BLOCKS_AVX2 inline __m256i fifth_bits(const std::uint8_t* at) {
  std::int32_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(bits),
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i others = _mm256_set1_epi64x(0x7fbfdfeff7fbfdfe);
  const __m256i set = _mm256_cmpeq_epi8(_mm256_or_si256(spread, others), _mm256_set1_epi8(-1));
  return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

/// The low halves of bytes, or their high ones.
SLUICE_BLOCKS_AVX2 inline __m256i halves(__m256i bytes, bool high) {
  return _mm256_and_si256(high ? _mm256_srli_epi16(bytes, 4) : bytes, _mm256_set1_epi8(15));
}

/// As `wholes_of`.
template <BlockType T>
SLUICE_BLOCKS_AVX2 inline __m256i wholes(const std::uint8_t* block, std::size_t g) {
  if constexpr (T == BlockType::q8_0) return load32(block + 2);
  if constexpr (T == BlockType::q4_0)
    return _mm256_sub_epi8(nibbles(block + 2), _mm256_set1_epi8(8));
  if constexpr (T == BlockType::q4_1) return nibbles(block + 4);
  if constexpr (T == BlockType::q5_0)
    return _mm256_sub_epi8(_mm256_or_si256(nibbles(block + 6), fifth_bits(block + 2)),
                           _mm256_set1_epi8(16));
  if constexpr (T == BlockType::q5_1)
    return _mm256_or_si256(nibbles(block + 8), fifth_bits(block + 4));
  if constexpr (T == BlockType::q4_k) return halves(load32(block + 16 + g / 2 * 32), g % 2 != 0);
  const __m128i by = _mm_cvtsi32_si128(static_cast<int>(T == BlockType::q5_k ? g : g % 4 * 2));
  if constexpr (T == BlockType::q5_k) {
    const __m256i fifth =
        _mm256_and_si256(_mm256_srl_epi16(load32(block + 16), by), _mm256_set1_epi8(1));
    return _mm256_or_si256(halves(load32(block + 48 + g / 2 * 32), g % 2 != 0),
                           _mm256_slli_epi16(fifth, 4));
  }
  const __m256i two =
      _mm256_and_si256(_mm256_srl_epi16(load32(block + 128 + g / 4 * 32), by), _mm256_set1_epi8(3));
  return _mm256_sub_epi8(_mm256_or_si256(halves(load32(block + g / 4 * 64 + g % 2 * 32), g % 4 > 1),
                                         _mm256_slli_epi16(two, 4)),
                         _mm256_set1_epi8(32));
}

/// A group's first and last sixteen whole numbers, of 16 bits.
struct Sixteens {
  __m256i first, last;
};
SLUICE_BLOCKS_AVX2 inline __m128i load16(const std::uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
template <BlockType T>
SLUICE_BLOCKS_AVX2 inline Sixteens sixteens(const std::uint8_t* block, std::size_t g) {
  if constexpr (T == BlockType::q8_0)
    return {_mm256_cvtepi8_epi16(load16(block + 2)), _mm256_cvtepi8_epi16(load16(block + 18))};
  const __m256i low_half = _mm256_set1_epi16(15);
  if constexpr (T == BlockType::q4_0 || T == BlockType::q4_1) {
    const __m256i bytes = _mm256_cvtepu8_epi16(load16(block + (T == BlockType::q4_0 ? 2 : 4)));
    const Sixteens both{_mm256_and_si256(bytes, low_half), _mm256_srli_epi16(bytes, 4)};
    if constexpr (T == BlockType::q4_1) return both;
    const __m256i eight = _mm256_set1_epi16(8);
    return {_mm256_sub_epi16(both.first, eight), _mm256_sub_epi16(both.last, eight)};
  }
  if constexpr (T == BlockType::q4_k) {
    const std::uint8_t* at = block + 16 + g / 2 * 32;
    const __m256i first = _mm256_cvtepu8_epi16(load16(at));
    const __m256i last = _mm256_cvtepu8_epi16(load16(at + 16));
    if (g % 2 != 0) return {_mm256_srli_epi16(first, 4), _mm256_srli_epi16(last, 4)};
    return {_mm256_and_si256(first, low_half), _mm256_and_si256(last, low_half)};
  }
  const __m256i all = wholes<T>(block, g);
  return {_mm256_cvtepi8_epi16(_mm256_castsi256_si128(all)),
          _mm256_cvtepi8_epi16(_mm256_extracti128_si256(all, 1))};
}

/// As `scales_plain`.
template <BlockType T>
SLUICE_BLOCKS_AVX2 inline void scales_wide(const std::uint8_t* block, BlockScales& to) {
  if constexpr (has_minimum<T>()) {
    std::int32_t two = 0;
    std::memcpy(&two, block, sizeof two);
    const __m128 wide = _mm_cvtph_ps(_mm_cvtsi32_si128(two));
    scales_of<T>(block, _mm_cvtss_f32(wide), _mm_cvtss_f32(_mm_movehdup_ps(wide)), to);
  } else {
    std::uint16_t half = 0;
    std::memcpy(&half, block + first_half<T>(), sizeof half);
    scales_of<T>(block, _cvtsh_ss(half), 0, to);
  }
}

}  // namespace sluice::kernels
#endif
