// Products of 16-bit whole numbers with VNNI: an instruction multiplies four values of x with four
// bytes of each of sixteen rows. x goes through in two parts, x = 256 high + low, so sums stay
// exact.
#include "base/check.h"
#include "kernels/quant_panel.h"
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

/// Sums of `count` quads of the high bytes of R rows, or of the low ones.
template <std::size_t R, std::size_t count>
SLUICE_PANEL_INLINE void add_part(const __m512i* w, const std::int8_t* x, __m512i (&sums)[R]) {
#pragma GCC unroll 8
  for (std::size_t quad = 0; quad < count; ++quad) {
    const __m512i four = w[quad];
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r)
      sums[r] = _mm512_dpbusd_epi32(sums[r], four, four_of_x(x + (quad * R + r) * 4));
  }
}

/// Few rows: sums of their own for each part and for every other quad, so that additions do not
/// wait for each other.
template <std::size_t R, std::size_t count>
SLUICE_PANEL_INLINE void add_apart(const __m512i* w, const std::int8_t* high,
                                   const std::int8_t* low, __m512i (&sums)[R]) {
  __m512i parts[2][2][R];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r)
    parts[0][0][r] = parts[0][1][r] = parts[1][0][r] = parts[1][1][r] = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (std::size_t quad = 0; quad < count; ++quad)
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      const std::size_t at = (quad * R + r) * 4;
      parts[0][quad % 2][r] =
          _mm512_dpbusd_epi32(parts[0][quad % 2][r], w[quad], four_of_x(high + at));
      parts[1][quad % 2][r] =
          _mm512_dpbusd_epi32(parts[1][quad % 2][r], w[quad], four_of_x(low + at));
    }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r)
    sums[r] =
        _mm512_add_epi32(_mm512_slli_epi32(_mm512_add_epi32(parts[0][0][r], parts[0][1][r]), 8),
                         _mm512_add_epi32(parts[1][0][r], parts[1][1][r]));
}

/// Exact sums of `count` quads of R rows.
template <std::size_t R, std::size_t count>
SLUICE_PANEL_INLINE void multiply_quads(const __m512i* w, const std::int8_t* high,
                                        const std::int8_t* low, __m512i (&sums)[R]) {
  if constexpr (R <= 2) return add_apart<R, count>(w, high, low, sums);
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) sums[r] = _mm512_setzero_si512();
  add_part<R, count>(w, high, sums);
  // Read again: kept in registers, `w` would push sums out of them.
  if constexpr (R > 8) asm volatile("" : "+r"(w));
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) sums[r] = _mm512_slli_epi32(sums[r], 8);
  add_part<R, count>(w, low, sums);
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

/// Adds a group's products to the sums of R rows. `offset`: what bytes have more than whole
/// numbers, in bits.
template <std::size_t R, PanelKind kind>
SLUICE_PANEL_INLINE void add_group(const GroupOfX<R>& x, const __m512i* w, __m512 low, __m512 high,
                                   __m512 minimum, __m128i offset, __m512 (&sums)[R]) {
  __m512i whole[R];
  if constexpr (kind == PanelKind::halves) {
    multiply_quads<R, quads / 2>(w, x.high, x.low, whole);
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r) {
      const __m512i more = _mm512_set1_epi32(x.totals[r] - x.totals[R + r]);
      sums[r] = scaled(_mm512_sub_epi32(whole[r], _mm512_sll_epi32(more, offset)), low, x.scales[r],
                       sums[r]);
    }
    constexpr std::size_t half = R * part_bytes / 2;
    multiply_quads<R, quads / 2>(w + quads / 2, x.high + half, x.low + half, whole);
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r) {
      const __m512i more = _mm512_set1_epi32(x.totals[R + r]);
      sums[r] = scaled(_mm512_sub_epi32(whole[r], _mm512_sll_epi32(more, offset)), high,
                       x.scales[r], sums[r]);
    }
    return;
  }
  multiply_quads<R, quads>(w, x.high, x.low, whole);
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) {
    if constexpr (kind == PanelKind::plain)
      whole[r] =
          _mm512_sub_epi32(whole[r], _mm512_sll_epi32(_mm512_set1_epi32(x.totals[r]), offset));
    sums[r] = scaled(whole[r], low, x.scales[r], sums[r]);
    if constexpr (kind == PanelKind::minima)
      sums[r] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(x.sums[r]), sums[r]);
  }
}

template <std::size_t R>
SLUICE_PANEL_INLINE void put(const __m512 (&sums)[R], TileSums& to) {
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) _mm512_storeu_ps(to[r], sums[r]);
}
template <std::size_t R>
SLUICE_PANEL_INLINE void clear(__m512 (&sums)[R]) {
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) sums[r] = _mm512_setzero_ps();
}

template <std::size_t R, PanelKind kind>
SLUICE_PANEL_VNNI void multiply(const Panel& panel, const TileProduct& p, TileSums& to) {
  const __m128i offset = _mm_cvtsi32_si128(panel.offset_bits);
  const auto* w = reinterpret_cast<const __m512i*>(panel.whole.data());
  __m512 sums[R];
  clear(sums);
  for (std::size_t g = 0; g < p.groups; ++g, w += quads) {
    const std::size_t at = g * panel_outs;
    add_group<R, kind>(GroupOfX<R>(p, g), w, _mm512_loadu_ps(panel.low.data() + at),
                       _mm512_loadu_ps(panel.high.data() + at),
                       _mm512_loadu_ps(panel.minimum.data() + at), offset, sums);
  }
  put(sums, to);
}

template <std::size_t R>
void multiply(const Panel& panel, const TileProduct& p, TileSums& to) {
  switch (panel.kind) {
    case PanelKind::plain:
      return multiply<R, PanelKind::plain>(panel, p, to);
    case PanelKind::minima:
      return multiply<R, PanelKind::minima>(panel, p, to);
    case PanelKind::halves:
      return multiply<R, PanelKind::halves>(panel, p, to);
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
  __m512 sums[R];
  clear(sums);
  SixteenRows at = rows;
  NextRows<T> next(rows);
  for (std::size_t first = 0; first < p.groups; first += groups, at.first += bytes_of<T>()) {
    const TurnedBlock<T> block(at);
    next.ask();
    for (std::size_t g = 0; g < groups; ++g) {
      TurnedGroup turned;
      block.group(g, turned);
      add_group<R, kind_of<T>()>(GroupOfX<R>(p, first + g), turned.whole, turned.low, turned.high,
                                 turned.minimum, offset, sums);
    }
  }
  put(sums, to);
}

template <BlockType T>
SLUICE_PANEL_VNNI void fill(const SixteenRows& rows, std::size_t in, Panel& panel) {
  constexpr std::size_t groups = values_of<T>() / group_values;
  auto* to = reinterpret_cast<__m512i*>(panel.whole.data());
  SixteenRows from = rows;
  NextRows<T> next(rows);
  std::size_t at = 0;
  for (std::size_t first = 0; first < in; first += values_of<T>(), from.first += bytes_of<T>()) {
    const TurnedBlock<T> block(from);
    next.ask();
    for (std::size_t g = 0; g < groups; ++g, to += quads, at += panel_outs) {
      TurnedGroup turned;
      block.group(g, turned);
#pragma GCC unroll 8
      for (std::size_t quad = 0; quad < quads; ++quad) to[quad] = turned.whole[quad];
      _mm512_storeu_ps(panel.low.data() + at, turned.low);
      if constexpr (kind_of<T>() == PanelKind::halves)
        _mm512_storeu_ps(panel.high.data() + at, turned.high);
      if constexpr (kind_of<T>() == PanelKind::minima)
        _mm512_storeu_ps(panel.minimum.data() + at, turned.minimum);
    }
  }
}

}  // namespace

void fill_panel_vnni(BlockType type, const SixteenRows& rows, std::size_t in, Panel& panel) {
  with_quantised(type, [&]<BlockType T>() {
    panel.kind = kind_of<T>();
    panel.offset_bits = offset_bits<T>();
    fill<T>(rows, in, panel);
  });
}

void multiply_tile_vnni(const Panel& panel, const TileProduct& p, std::size_t rows, TileSums& to) {
  switch (rows) {
    case 2:
      return multiply<2>(panel, p, to);
    case 4:
      return multiply<4>(panel, p, to);
    case 6:
      return multiply<6>(panel, p, to);
    case 8:
      return multiply<8>(panel, p, to);
    case 10:
      return multiply<10>(panel, p, to);
    default:
      SLUICE_CHECK(rows == tile_rows_most, "a tile's rows");
      return multiply<tile_rows_most>(panel, p, to);
  }
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

SLUICE_PANEL_VNNI void split(const std::int16_t* from, std::int8_t* high, std::int8_t* low) {
  const __m512i x = _mm512_loadu_si512(from);
  const __m512i up = _mm512_srai_epi16(_mm512_add_epi16(x, _mm512_set1_epi16(128)), 8);
  const __m512i rest = _mm512_sub_epi16(x, _mm512_slli_epi16(up, 8));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(high), _mm512_cvtepi16_epi8(up));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(low), _mm512_cvtepi16_epi8(rest));
}

}  // namespace

void split_row_vnni(const std::int16_t* row, std::size_t groups, std::size_t each, std::int8_t* to,
                    std::int32_t* totals) {
  std::int8_t parts[2][group_values];
  for (std::size_t g = 0; g < groups; ++g, row += group_values) {
    split(row, parts[0], parts[1]);
    for (const auto& part : parts)
      for (std::size_t quad = 0; quad < quads; ++quad, to += 4 * each)
        std::memcpy(to, part + 4 * quad, 4);
    std::int32_t first = 0, last = 0;
    for (std::size_t i = 0; i < group_values / 2; ++i) {
      first += row[i];
      last += row[i + group_values / 2];
    }
    totals[2 * g * each] = first + last;
    totals[(2 * g + 1) * each] = last;
  }
}

#else

void fill_panel_vnni(BlockType, const SixteenRows&, std::size_t, Panel&) {
  SLUICE_CHECK(false, "no such machine");
}
void multiply_tile_vnni(const Panel&, const TileProduct&, std::size_t, TileSums&) {
  SLUICE_CHECK(false, "no such machine");
}
void multiply_rows_vnni(BlockType, const SixteenRows&, const TileProduct&, std::size_t, TileSums&) {
  SLUICE_CHECK(false, "no such machine");
}
void split_row_vnni(const std::int16_t*, std::size_t, std::size_t, std::int8_t*, std::int32_t*) {
  SLUICE_CHECK(false, "no such machine");
}

#endif

}  // namespace sluice::kernels
