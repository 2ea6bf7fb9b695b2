// Sixteen rows of bytes, turned: four bytes of each row in a register. For
// kernels/quant_panel_*.cpp only.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "kernels/quant_panel.h"

#define SLUICE_PANEL_VNNI \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]]
#define SLUICE_PANEL_INLINE SLUICE_PANEL_VNNI [[gnu::always_inline]] inline

namespace sluice::kernels {

/// Where each fourth of the sixteen rows stands. Computed anew each time: sixteen multiples of the
/// stride would not fit the registers.
struct RowFours {
  const std::uint8_t* at[4];
  std::size_t stride;

  SLUICE_PANEL_INLINE explicit RowFours(const SixteenRows& rows) : stride(rows.stride) {
    const std::uint8_t* first = rows.first;
#pragma GCC unroll 4
    for (const std::uint8_t*& four : at) {
      asm volatile("" : "+r"(first));
      four = first;
      first += 4 * stride;
    }
  }
  /// Row 4 i + j.
  SLUICE_PANEL_INLINE const std::uint8_t* row(std::size_t i, std::size_t j) const {
    return at[i] + j * stride;
  }
};

/// Four bytes of each row.
SLUICE_PANEL_INLINE __m512i fours(const SixteenRows& rows) {
  const RowFours from(rows);
  __m128i part[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    std::int32_t at[4];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) std::memcpy(&at[j], from.row(i, j), 4);
    part[i] = _mm_insert_epi32(_mm_cvtsi32_si128(at[0]), at[1], 1);
    part[i] = _mm_insert_epi32(part[i], at[2], 2);
    part[i] = _mm_insert_epi32(part[i], at[3], 3);
  }
  const __m512i low = _mm512_inserti32x4(_mm512_castsi128_si512(part[0]), part[1], 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(low, part[2], 2), part[3], 3);
}

/// Four rows of sixteen bytes each, in each quarter of a register: become their first to fourth
/// four bytes.
SLUICE_PANEL_INLINE void quarters_turned(__m512i (&a)[4]) {
  const __m512i b0 = _mm512_unpacklo_epi32(a[0], a[1]);
  const __m512i b1 = _mm512_unpackhi_epi32(a[0], a[1]);
  const __m512i b2 = _mm512_unpacklo_epi32(a[2], a[3]);
  const __m512i b3 = _mm512_unpackhi_epi32(a[2], a[3]);
  a[0] = _mm512_unpacklo_epi64(b0, b2);
  a[1] = _mm512_unpackhi_epi64(b0, b2);
  a[2] = _mm512_unpacklo_epi64(b1, b3);
  a[3] = _mm512_unpackhi_epi64(b1, b3);
}

SLUICE_PANEL_INLINE __m128i sixteen(const std::uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
/// Sixteen bytes of each row, four a register.
SLUICE_PANEL_INLINE void sixteens_turned(const SixteenRows& rows, __m512i* to) {
  const RowFours from(rows);
  __m512i a[4];
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) {
    a[j] = _mm512_castsi128_si512(sixteen(from.row(0, j)));
    a[j] = _mm512_inserti32x4(a[j], sixteen(from.row(1, j)), 1);
    a[j] = _mm512_inserti32x4(a[j], sixteen(from.row(2, j)), 2);
    a[j] = _mm512_inserti32x4(a[j], sixteen(from.row(3, j)), 3);
  }
  quarters_turned(a);
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) to[j] = a[j];
}

/// Thirty-two bytes of each row, four a register.
SLUICE_PANEL_INLINE void thirty_twos_turned(const SixteenRows& rows, __m512i* to) {
  const RowFours from(rows);
  __m512i a[2][4];
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j)
      a[i][j] = _mm512_inserti64x4(
          _mm512_castsi256_si512(
              _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from.row(2 * i, j)))),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from.row(2 * i + 1, j))), 1);
    quarters_turned(a[i]);
  }
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) {
    to[j] = _mm512_shuffle_i32x4(a[0][j], a[1][j], 0x88);
    to[j + 4] = _mm512_shuffle_i32x4(a[0][j], a[1][j], 0xdd);
  }
}

/// Sixty-four bytes of each row, four a register. `here`: those that are read; the others are
/// zeros.
SLUICE_PANEL_INLINE void sixty_fours_turned(const SixteenRows& rows, __mmask64 here, __m512i* to) {
  const RowFours from(rows);
  __m512i a[4][4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) a[i][j] = _mm512_maskz_loadu_epi8(here, from.row(i, j));
    quarters_turned(a[i]);
  }
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) {
    const __m512i even = _mm512_shuffle_i32x4(a[0][j], a[1][j], 0x88);
    const __m512i odd = _mm512_shuffle_i32x4(a[0][j], a[1][j], 0xdd);
    const __m512i more_even = _mm512_shuffle_i32x4(a[2][j], a[3][j], 0x88);
    const __m512i more_odd = _mm512_shuffle_i32x4(a[2][j], a[3][j], 0xdd);
    to[j] = _mm512_shuffle_i32x4(even, more_even, 0x88);
    to[j + 4] = _mm512_shuffle_i32x4(odd, more_odd, 0x88);
    to[j + 8] = _mm512_shuffle_i32x4(even, more_even, 0xdd);
    to[j + 12] = _mm512_shuffle_i32x4(odd, more_odd, 0xdd);
  }
}

}  // namespace sluice::kernels
#endif
