// Products of 16-bit whole numbers with VNNI: an instruction multiplies four values of x with four
// bytes of each of sixteen rows. x goes through in two parts, x = 256 high + low, so sums stay
// exact.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "kernels/quant_pair.h"
#include "kernels/quant_turned.h"

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

constexpr std::size_t quads = group_values / 4;
constexpr std::size_t part_bytes = group_values;  // of a row of x: the high bytes, or the low ones

SLUICE_PANEL_INLINE __m512i four_of_x(const std::int8_t* at) {
  std::int32_t four = 0;
  __builtin_memcpy(&four, at, sizeof four);
  return _mm512_set1_epi32(four);
}

/// Sixteen rows of the matrix, or two times sixteen side by side, as P registers.
template <std::size_t P>
using Side = const __m512i (*)[P];

/// Sums of `count` quads of the high bytes of R rows, or of the low ones. What four values of x are
/// loaded for is multiplied at once.
template <std::size_t R, std::size_t P, std::size_t count>
SLUICE_PANEL_INLINE void add_part(Side<P> w, const std::int8_t* x, __m512i (&sums)[R][P]) {
#pragma GCC unroll 8
  for (std::size_t quad = 0; quad < count; ++quad) {
    __m512i four[P];
#pragma GCC unroll 2
    for (std::size_t p = 0; p < P; ++p) four[p] = w[quad][p];
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r) {
      const __m512i some = four_of_x(x + (quad * R + r) * 4);
#pragma GCC unroll 2
      for (std::size_t p = 0; p < P; ++p)
        sums[r][p] = _mm512_dpbusd_epi32(sums[r][p], four[p], some);
    }
  }
}

/// Few rows: sums of their own for each part and for every other quad, so that additions do not
/// wait for each other.
template <std::size_t R, std::size_t P, std::size_t count>
SLUICE_PANEL_INLINE void add_apart(Side<P> w, const std::int8_t* high, const std::int8_t* low,
                                   __m512i (&sums)[R][P]) {
  __m512i parts[2][2][R][P];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (std::size_t p = 0; p < P; ++p)
      parts[0][0][r][p] = parts[0][1][r][p] = parts[1][0][r][p] = parts[1][1][r][p] =
          _mm512_setzero_si512();
#pragma GCC unroll 8
  for (std::size_t quad = 0; quad < count; ++quad)
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      const std::size_t at = (quad * R + r) * 4;
#pragma GCC unroll 2
      for (std::size_t p = 0; p < P; ++p) {
        __m512i(&up)[R][P] = parts[0][quad % 2];
        __m512i(&down)[R][P] = parts[1][quad % 2];
        up[r][p] = _mm512_dpbusd_epi32(up[r][p], w[quad][p], four_of_x(high + at));
        down[r][p] = _mm512_dpbusd_epi32(down[r][p], w[quad][p], four_of_x(low + at));
      }
    }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (std::size_t p = 0; p < P; ++p)
      sums[r][p] = _mm512_add_epi32(
          _mm512_slli_epi32(_mm512_add_epi32(parts[0][0][r][p], parts[0][1][r][p]), 8),
          _mm512_add_epi32(parts[1][0][r][p], parts[1][1][r][p]));
}

/// Exact sums of `count` quads of R rows.
template <std::size_t R, std::size_t P, std::size_t count>
SLUICE_PANEL_INLINE void multiply_quads(Side<P> w, const std::int8_t* high, const std::int8_t* low,
                                        __m512i (&sums)[R][P]) {
  if constexpr (R * P <= 2) return add_apart<R, P, count>(w, high, low, sums);
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (std::size_t p = 0; p < P; ++p) sums[r][p] = _mm512_setzero_si512();
  add_part<R, P, count>(w, high, sums);
  // Read again: kept in registers, `w` would push sums out of them.
  if constexpr (R * P > 8) asm volatile("" : "+r"(w));
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (std::size_t p = 0; p < P; ++p) sums[r][p] = _mm512_slli_epi32(sums[r][p], 8);
  add_part<R, P, count>(w, low, sums);
}

/// R rows of x, a group's: where its parts begin.
template <std::size_t R>
struct GroupOfX {
  const std::int8_t* high;
  const std::int8_t* low;
  const float* scales;
  const float* sums;
  const std::int32_t* totals;

  SLUICE_PANEL_INLINE GroupOfX(const TileProduct& p, std::size_t g)
      : high(reinterpret_cast<const std::int8_t*>(p.x) + g * 2 * R * part_bytes),
        low(high + R * part_bytes),
        scales(p.scales + g * R),
        sums(p.sums + g * R),
        totals(p.totals + g * 2 * R) {}
};

SLUICE_PANEL_INLINE __m512 scaled(__m512i whole, __m512 scale, float x_scale, __m512 sum) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), _mm512_mul_ps(scale, _mm512_set1_ps(x_scale)),
                         sum);
}

/// What a group's whole numbers are multiplied by, for P times sixteen rows of the matrix.
template <std::size_t P>
struct Scales {
  __m512 low[P], high[P], minimum[P];
};

/// Adds a group's products to the sums of R rows. `offset`: what bytes have more than whole
/// numbers, in bits.
template <std::size_t R, std::size_t P, PanelKind kind>
SLUICE_PANEL_INLINE void add_group(const GroupOfX<R>& x, Side<P> w, const Scales<P>& scales,
                                   __m128i offset, __m512 (*sums)[P]) {
  __m512i whole[R][P];
  if constexpr (kind == PanelKind::halves) {
    multiply_quads<R, P, quads / 2>(w, x.high, x.low, whole);
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r) {
      const __m512i more =
          _mm512_sll_epi32(_mm512_set1_epi32(x.totals[r] - x.totals[R + r]), offset);
#pragma GCC unroll 2
      for (std::size_t p = 0; p < P; ++p)
        sums[r][p] =
            scaled(_mm512_sub_epi32(whole[r][p], more), scales.low[p], x.scales[r], sums[r][p]);
    }
    constexpr std::size_t half = R * part_bytes / 2;
    multiply_quads<R, P, quads / 2>(w + quads / 2, x.high + half, x.low + half, whole);
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r) {
      const __m512i more = _mm512_sll_epi32(_mm512_set1_epi32(x.totals[R + r]), offset);
#pragma GCC unroll 2
      for (std::size_t p = 0; p < P; ++p)
        sums[r][p] =
            scaled(_mm512_sub_epi32(whole[r][p], more), scales.high[p], x.scales[r], sums[r][p]);
    }
    return;
  }
  multiply_quads<R, P, quads>(w, x.high, x.low, whole);
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (std::size_t p = 0; p < P; ++p) {
      __m512i exact = whole[r][p];
      if constexpr (kind == PanelKind::plain)
        exact = _mm512_sub_epi32(exact, _mm512_sll_epi32(_mm512_set1_epi32(x.totals[r]), offset));
      __m512 sum = scaled(exact, scales.low[p], x.scales[r], sums[r][p]);
      if constexpr (kind == PanelKind::minima)
        sum = _mm512_fmadd_ps(scales.minimum[p], _mm512_set1_ps(x.sums[r]), sum);
      sums[r][p] = sum;
    }
}

/// Asks for the next rows but sixteen while these are taken apart, line after line: sixteen rows at
/// once are more streams than the processor follows. Into the second cache; the first holds x and a
/// panel (from there it was up to twice as slow).
template <BlockType T>
struct NextRows {
  const std::uint8_t* at;

  SLUICE_PANEL_INLINE explicit NextRows(const SixteenRows& rows)
      : at(rows.first + 2 * panel_outs * rows.stride) {}
  SLUICE_PANEL_INLINE void ask() {
    constexpr std::size_t bytes = panel_outs * bytes_of<T>();
#pragma GCC unroll 64
    for (std::size_t line = 0; line < bytes; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T1);
    at += bytes;
  }
};

/// R rows against sixteen of the matrix, which are turned as they come.
template <BlockType T, std::size_t R>
SLUICE_PANEL_VNNI void direct(const SixteenRows& rows, const TileProduct& p, TileSums& to) {
  constexpr std::size_t groups = values_of<T>() / group_values;
  const __m128i offset = _mm_cvtsi32_si128(offset_bits<T>());
  __m512 sums[R][1];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) sums[r][0] = _mm512_setzero_ps();
  SixteenRows at = rows;
  NextRows<T> next(rows);
  for (std::size_t first = 0; first < p.groups; first += groups, at.first += bytes_of<T>()) {
    const TurnedBlock<T> block({at});
    next.ask();
    for (std::size_t g = 0; g < groups; ++g) {
      TurnedGroup turned;
      block.group(g, turned);
      Scales<1> scales;
      scales.low[0] = turned.low;
      scales.high[0] = turned.high;
      scales.minimum[0] = turned.minimum;
      add_group<R, 1, kind_of<T>()>(GroupOfX<R>(p, first + g),
                                    reinterpret_cast<Side<1>>(turned.whole), scales, offset, sums);
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) _mm512_storeu_ps(to[r], sums[r][0]);
}

/// What their blocks have of each row, four bytes each, sixteen fours at a time: at most so many.
constexpr std::size_t fours_at_once = 112;

/// Two times sixteen rows of the matrix, some groups of each.
struct PairGroups {
  __m512i whole[groups_at_once][quads][2];
  Scales<2> scales[groups_at_once];
  __m512i fours[fours_at_once];  // of one side
};

template <BlockType T, typename Source>
SLUICE_PANEL_INLINE void turn_block(const Source& from, std::size_t first, std::size_t side,
                                    PairGroups& to) {
  const TurnedBlock<T, Source> block(from);
  for (std::size_t g = 0; g < values_of<T>() / group_values; ++g) {
    TurnedGroup turned;
    block.group(g, turned);
#pragma GCC unroll 8
    for (std::size_t quad = 0; quad < quads; ++quad)
      to.whole[first + g][quad][side] = turned.whole[quad];
    Scales<2>& scales = to.scales[first + g];
    scales.low[side] = turned.low;
    if constexpr (kind_of<T>() == PanelKind::halves) scales.high[side] = turned.high;
    if constexpr (kind_of<T>() == PanelKind::minima) scales.minimum[side] = turned.minimum;
  }
}

template <BlockType T>
SLUICE_PANEL_VNNI void turn(const SixteenRows& rows, std::size_t count, std::size_t side,
                            PairGroups& to) {
  constexpr std::size_t groups = values_of<T>() / group_values, bytes = bytes_of<T>();
  static_assert(!turns_whole<T>() || groups_at_once / groups * bytes <= 4 * fours_at_once);
  if constexpr (turns_whole<T>()) {
    const std::size_t all = count / groups * bytes;
    for (std::size_t at = 0; at < all; at += 64)
      sixty_fours_turned({rows.first + at, rows.stride},
                         ~std::uint64_t{0} >> (64 - std::min<std::size_t>(all - at, 64)),
                         to.fours + at / 4);
  }
  for (std::size_t first = 0; first < count; first += groups)
    if constexpr (turns_whole<T>())
      turn_block<T>(BlocksTurned{to.fours + first / groups * bytes / 4}, first, side, to);
    else
      turn_block<T>(BlocksAsTheyLie{{rows.first + first / groups * bytes, rows.stride}}, first,
                    side, to);
}

/// `count` groups, of x from `first` on, against a tile: added to `to`, [R][2] times sixteen.
template <std::size_t R, PanelKind kind>
SLUICE_PANEL_VNNI void multiply(const PairGroups& w, std::size_t count, int offset_bits,
                                const TileProduct& p, std::size_t first, float* to, Ahead& kept) {
  Ahead ahead = kept;
  const __m128i offset = _mm_cvtsi32_si128(offset_bits);
  auto* sums = reinterpret_cast<__m512(*)[2]>(to);
  for (std::size_t g = 0; g < count; ++g) {
    ahead.ask();
    add_group<R, 2, kind>(GroupOfX<R>(p, first + g), w.whole[g], w.scales[g], offset, sums);
  }
  kept = ahead;
}

using Multiply = void (*)(const PairGroups&, std::size_t, int, const TileProduct&, std::size_t,
                          float*, Ahead&);
template <PanelKind kind>
Multiply for_rows(std::size_t rows) {
  switch (rows) {
    case 2:
      return multiply<2, kind>;
    case 4:
      return multiply<4, kind>;
    case 6:
      return multiply<6, kind>;
    default:
      SLUICE_CHECK(rows == pair_rows_most, "a tile's rows");
      return multiply<pair_rows_most, kind>;
  }
}

}  // namespace

void multiply_pair_vnni(const PairProduct& p) {
  // Not in the thread's own block, which every thread of the process would have.
  thread_local const auto kept = std::make_unique<PairGroups>();
  PairGroups& turned = *kept;
  with_quantised(p.pair.matrix[0]->type, [&]<BlockType T>() {
    const Multiply multiply = for_rows<kind_of<T>()>(p.x.each);
    Ahead ahead(p.pair.next, p.x.in / group_values * (p.end - p.begin));
    multiply_turns<T>(
        p,
        [&](const SixteenRows& rows, std::size_t count, std::size_t side) {
          turn<T>(rows, count, side, turned);
        },
        [&](const PairTurn& now, std::size_t tile, float* sums) {
          multiply(turned, now.count, offset_bits<T>(), {p.x, tile}, now.first, sums, ahead);
        });
  });
}

void multiply_rows_vnni(BlockType type, const SixteenRows& w, const TileProduct& p,
                        std::size_t rows, TileSums& to) {
  SLUICE_CHECK(rows == 2 || rows == 4, "few rows");
  with_quantised(type, [&]<BlockType T>() {
    if (rows == 2) direct<T, 2>(w, p, to);
    if (rows == 4) direct<T, 4>(w, p, to);
  });
}

namespace {

/// The sums of four registers, or what is largest in each, four of them: `join` makes one of two.
template <typename Join>
SLUICE_PANEL_INLINE __m128i four_of(__m512i (&a)[4], const Join& join) {
  quarters_turned(a);
  const __m512i some = join(join(a[0], a[1]), join(a[2], a[3]));
  const __m512i half = join(some, _mm512_shuffle_i32x4(some, some, 0x4e));
  return _mm512_castsi512_si128(join(half, _mm512_shuffle_i32x4(half, half, 0xb1)));
}
struct Largest {
  SLUICE_PANEL_INLINE __m512i operator()(__m512i a, __m512i b) const {
    return _mm512_max_epu32(a, b);
  }
};
struct Sum {
  SLUICE_PANEL_INLINE __m512i operator()(__m512i a, __m512i b) const {
    return _mm512_add_epi32(a, b);
  }
};

/// A group of four rows of x: as WholeRows has it, but for bytes with a sign.
struct RoundedGroup {
  __m512i parts[4];  // eight times four high bytes, then the low ones
  __m128 scales, sums;
  __m128i totals, last;  // of whole numbers, of all and of the last sixteen
};

SLUICE_PANEL_INLINE void round_group(const float* const (&x)[4], RoundedGroup& to) {
  constexpr float whole_most = 32639;  // 127 * 256 + 127: what two bytes with a sign can say
  const __m512i size = _mm512_set1_epi32(0x7fffffff);  // sizes are in the order of their bits
  __m512i some[4], last[4];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < 4; ++r)
    some[r] = _mm512_max_epu32(_mm512_and_si512(_mm512_loadu_si512(x[r]), size),
                               _mm512_and_si512(_mm512_loadu_si512(x[r] + 16), size));
  const __m128i bits = four_of(some, Largest());
  const __m128 most = _mm_castsi128_ps(bits);
  // Below this, as good as zero, a scale has no inverse.
  const __mmask8 finite = _mm_cmplt_epu32_mask(bits, _mm_set1_epi32(0x7f800000));
  const __mmask8 usual = _mm_mask_cmp_ps_mask(finite, most, _mm_set1_ps(1e-30F), _CMP_GE_OQ);
  const __m128 inverse = _mm_maskz_div_ps(usual, _mm_set1_ps(whole_most), most);
  to.scales = _mm_maskz_div_ps(usual, most, _mm_set1_ps(whole_most));
  to.scales = _mm_mask_mov_ps(_mm_set1_ps(NAN), finite, to.scales);
  const __m512 by = _mm512_broadcast_f32x4(inverse);
  const __m512 each[4] = {_mm512_permute_ps(by, 0x00), _mm512_permute_ps(by, 0x55),
                          _mm512_permute_ps(by, 0xaa), _mm512_permute_ps(by, 0xff)};
#pragma GCC unroll 4
  for (std::size_t r = 0; r < 4; ++r) {
    const __m512i first = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x[r]), each[r]));
    last[r] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x[r] + 16), each[r]));
    some[r] = _mm512_add_epi32(first, last[r]);
    const __m512i whole = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(first)),
                                             _mm512_cvtepi32_epi16(last[r]), 1);
    const __m512i high = _mm512_srai_epi16(_mm512_add_epi16(whole, _mm512_set1_epi16(128)), 8);
    const __m512i low = _mm512_sub_epi16(whole, _mm512_slli_epi16(high, 8));
    to.parts[r] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(high)),
                                     _mm512_cvtepi16_epi8(low), 1);
  }
  to.totals = four_of(some, Sum());
  to.last = four_of(last, Sum());
  to.sums = _mm_mul_ps(to.scales, _mm_cvtepi32_ps(to.totals));
}

/// Quad 4 i + j of four rows is in quarter i of a[j]; they go `step` apart, of as many rows as
/// `wide` bytes hold.
template <std::size_t wide>
SLUICE_PANEL_INLINE void put_quads(const __m512i (&a)[4], std::size_t step, std::int8_t* to) {
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) {
    const __m128i quarters[4] = {_mm512_castsi512_si128(a[j]), _mm512_extracti32x4_epi32(a[j], 1),
                                 _mm512_extracti32x4_epi32(a[j], 2),
                                 _mm512_extracti32x4_epi32(a[j], 3)};
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) std::memcpy(to + (4 * i + j) * step, &quarters[i], wide);
  }
}
template <std::size_t rows>
SLUICE_PANEL_INLINE void put_values(const RoundedGroup& group, float* scales, float* sums,
                                    std::int32_t* totals, std::int32_t* last) {
  std::memcpy(scales, &group.scales, 4 * rows);
  std::memcpy(sums, &group.sums, 4 * rows);
  std::memcpy(totals, &group.totals, 4 * rows);
  std::memcpy(last, &group.last, 4 * rows);
}

}  // namespace

SLUICE_PANEL_VNNI void fill_tile_vnni(const float* const* rows, std::size_t groups,
                                      std::size_t each, std::int8_t* to, float* scales, float* sums,
                                      std::int32_t* totals) {
  for (std::size_t r = 0; r < each; r += 4) {
    const bool four = each - r >= 4;  // else two, which stand for the others too
    const float* x[4] = {rows[r], rows[r + 1], rows[four ? r + 2 : r], rows[four ? r + 3 : r]};
    for (std::size_t g = 0; g < groups; ++g) {
      RoundedGroup group;
      round_group(x, group);
      quarters_turned(group.parts);
      std::int8_t* bytes = to + (g * 2 * quads * each + r) * 4;
      const std::size_t at = g * each + r, total = 2 * g * each + r;
      if (four) {
        put_quads<16>(group.parts, 4 * each, bytes);
        put_values<4>(group, scales + at, sums + at, totals + total, totals + total + each);
      } else {
        put_quads<8>(group.parts, 4 * each, bytes);
        put_values<2>(group, scales + at, sums + at, totals + total, totals + total + each);
      }
      for (const float*& row : x) row += group_values;
    }
  }
}

#else

void multiply_pair_vnni(const PairProduct&) { SLUICE_CHECK(false, "no such machine"); }
void multiply_rows_vnni(BlockType, const SixteenRows&, const TileProduct&, std::size_t, TileSums&) {
  SLUICE_CHECK(false, "no such machine");
}
void fill_tile_vnni(const float* const*, std::size_t, std::size_t, std::int8_t*, float*, float*,
                    std::int32_t*) {
  SLUICE_CHECK(false, "no such machine");
}

#endif

}  // namespace sluice::kernels
