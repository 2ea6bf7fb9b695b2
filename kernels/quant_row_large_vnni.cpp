// One row of x over blocks of 256 values: two groups of 32 at a time, in the halves of a register.
//
// x goes through in two bytes, so sums of a group are exact, as on the other paths.
#include "base/check.h"
#include "kernels/quant_row_vnni.h"

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

/// Which numbers stand in the two groups' halves, four times two.
struct Halves {
  std::uint64_t at[4][8];
};
/// The fifth bit, or bits 5 and 6, of groups 2 i and 2 i + 1.
constexpr Halves made_uppers(unsigned bits) {
  Halves h{};
  for (unsigned pair = 0; pair < 4; ++pair)
    for (unsigned lane = 0; lane < 8; ++lane)
      for (unsigned bit = 0; bit < bits; ++bit)
        h.at[pair][lane] |= bit_moved((2 * pair + lane / 4) * bits % 8 + bit, 4 + bit);
  return h;
}
alignas(64) constexpr Halves one_bit = made_uppers(1), two_bits = made_uppers(2);
alignas(64) constexpr std::uint64_t low_then_high[8] = {bits_low,  bits_low,  bits_low,  bits_low,
                                                        bits_high, bits_high, bits_high, bits_high};

/// Which of a block's scales each lane is multiplied by.
struct Lanes {
  std::int32_t at[4][16];
};
constexpr Lanes made_lanes(int each) {
  Lanes lanes{};
  for (int pair = 0; pair < 4; ++pair)
    for (int i = 0; i < 16; ++i) lanes.at[pair][i] = pair * (16 / each) + i / each;
  return lanes;
}
alignas(64) constexpr Lanes by_group = made_lanes(8), by_sixteen = made_lanes(4);

SLUICE_ROW_INLINE __m512i bits_of(__m512i bytes, const std::uint64_t (&how)[8]) {
  return _mm512_gf2p8affine_epi64_epi8(bytes, _mm512_load_si512(how), 0);
}
SLUICE_ROW_INLINE __m512i twice(const std::uint8_t* at) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

/// Whole numbers of groups 2 pair and 2 pair + 1, without a sign.
template <BlockType T>
SLUICE_ROW_INLINE __m512i wholes(const std::uint8_t* block, std::size_t pair) {
  if constexpr (T == BlockType::q6_k) {
    const __m512i both = _mm512_loadu_si512(block + pair / 2 * 64);
    const __m512i upper = bits_of(twice(block + 128 + pair / 2 * 32), two_bits.at[pair]);
    if (pair % 2 == 0) return _mm512_or_si512(_mm512_and_si512(both, _mm512_set1_epi8(15)), upper);
    return _mm512_or_si512(_mm512_gf2p8affine_epi64_epi8(both, _mm512_set1_epi64(bits_high), 0),
                           upper);
  }
  constexpr std::size_t begin = T == BlockType::q4_k ? 16 : 48;
  const __m512i lower = bits_of(twice(block + begin + pair * 32), low_then_high);
  if constexpr (T == BlockType::q4_k) return lower;
  return _mm512_or_si512(lower, bits_of(twice(block + 16), one_bit.at[pair]));
}

/// Scales of a block's groups, or sixteens, times those of x. Adds what its minima come to.
template <BlockType T>
SLUICE_ROW_INLINE __m512 scales(const std::uint8_t* block, const EightGroups& x, __m512& minima) {
  if constexpr (T == BlockType::q6_k) {
    const __m128i whole = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 192));
    const __m512 d = _mm512_set1_ps(half_at(block + 208));
    return _mm512_mul_ps(_mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(whole))),
                         _mm512_load_ps(x.twice));
  }
  std::uint64_t six[2];
  six_bit_scales(block + 4, reinterpret_cast<std::uint8_t*>(six));
  const __m512 whole = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(
      _mm_set_epi64x(static_cast<std::int64_t>(six[1]), static_cast<std::int64_t>(six[0]))));
  std::int32_t two = 0;
  __builtin_memcpy(&two, block, sizeof two);
  const __m512i first_then_second =
      _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m512 d_then_m = _mm512_permutexvar_ps(
      first_then_second, _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128(two))));
  // x's sums are negative: a minimum is taken away.
  const __m512 all = _mm512_mul_ps(_mm512_mul_ps(whole, d_then_m), _mm512_load_ps(x.scales));
  minima = _mm512_mask_add_ps(minima, 0xff00, minima, all);
  return all;
}

template <BlockType T>
SLUICE_ROW_INLINE float product(const std::uint8_t* row, const EightGroups* x, std::size_t blocks) {
  constexpr std::size_t line = 64;
  __m512 sums = _mm512_setzero_ps(), minima = _mm512_setzero_ps();
  for (std::size_t i = 0; i < blocks; ++i, ++x, row += bytes_of<T>()) {
    for (std::size_t at = 0; at < bytes_of<T>(); at += line) read_ahead(row + at);
    const __m512 by = scales<T>(row, *x, minima);
    const auto& lanes = T == BlockType::q6_k ? by_sixteen : by_group;
#pragma GCC unroll 4
    for (std::size_t pair = 0; pair < 4; ++pair) {
      const __m512i w = wholes<T>(row, pair);
      __m512i whole =
          _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, _mm512_load_si512(x->high[pair]));
      whole = _mm512_slli_epi32(whole, 8);
      if constexpr (T == BlockType::q6_k)  // 32 more than whole numbers with a sign
        whole = _mm512_sub_epi32(whole, _mm512_load_si512(x->totals[pair]));
      whole = _mm512_dpbusd_epi32(whole, w, _mm512_load_si512(x->low[pair]));
      const __m512 scale = _mm512_permutexvar_ps(_mm512_load_si512(lanes.at[pair]), by);
      sums = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), scale, sums);
    }
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(sums, minima));
}

template <BlockType T>
SLUICE_ROW_VNNI void products(const FewBlockRows& f, const BlockRows& w, std::size_t begin,
                              std::size_t end) {
  const EightGroups* x = f.whole->eights.data();
  const std::size_t bytes = w.row_bytes();
  const std::size_t head = w.interleaved == 0 ? 1 : w.interleaved;
  for (std::size_t first = begin / head * head; first < end; first += head)
    for (std::size_t at = 0; at < head; ++at) {
      const std::size_t r = first + at % 2 * (head / 2) + at / 2;
      if (r >= begin && r < end)
        f.y[r] = product<T>(w.bytes + (first + at) * bytes, x, w.in / values_of<T>());
    }
}

/// Two groups of whole numbers as bytes, and what their fours come to.
SLUICE_ROW_VNNI void split(const std::int16_t* from, std::int8_t (&high)[64],
                           std::int8_t (&low)[64], std::int32_t (&totals)[16]) {
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512i whole = _mm512_loadu_si512(from + half * group_values);
    const __m512i rounded = _mm512_add_epi16(whole, _mm512_set1_epi16(128));
    _mm256_store_si256(reinterpret_cast<__m256i*>(high + half * group_values),
                       _mm512_cvtepi16_epi8(_mm512_srai_epi16(rounded, 8)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(low + half * group_values),
                       _mm512_cvtepi16_epi8(whole));
  }
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, _mm512_load_si512(high));
  sums = _mm512_dpbusd_epi32(_mm512_slli_epi32(sums, 8), ones, _mm512_load_si512(low));
  _mm512_store_si512(totals, _mm512_slli_epi32(sums, 5));
}

}  // namespace

void split_eight_groups(WholeRows& x) {
  for (std::size_t i = 0; i < x.eights.size(); ++i) {
    EightGroups& to = x.eights[i];
    for (std::size_t pair = 0; pair < 4; ++pair)
      split(x.whole.data() + (4 * i + pair) * 2 * group_values, to.high[pair], to.low[pair],
            to.totals[pair]);
    for (std::size_t g = 0; g < 8; ++g) {
      to.scales[g] = to.twice[2 * g] = to.twice[2 * g + 1] = x.scales[8 * i + g];
      to.scales[8 + g] = -x.sums[8 * i + g];
    }
  }
}

void row_products_large_vnni(const FewBlockRows& f, const BlockRows& w, std::size_t begin,
                             std::size_t end) {
  with_quantised(w.type, [&]<BlockType T>() {
    if constexpr (values_of<T>() != group_values) products<T>(f, w, begin, end);
  });
}

#else

void split_eight_groups(WholeRows&) { SLUICE_CHECK(false, "no such machine"); }
void row_products_large_vnni(const FewBlockRows&, const BlockRows&, std::size_t, std::size_t) {
  SLUICE_CHECK(false, "no such machine");
}

#endif

}  // namespace sluice::kernels
