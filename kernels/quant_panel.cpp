// Panels and tiles, and their plain path.
#include "kernels/quant_panel.h"

#include "base/check.h"
#include "kernels/huge_vector.h"
#include "kernels/isa.h"

namespace sluice::kernels {

namespace {

template <BlockType T>
void fill_plain(const BlockRows& w, std::size_t begin, std::size_t count, Panel& panel) {
  std::int8_t whole[group_values];
  for (std::size_t o = 0; o < count; ++o) {
    const std::uint8_t* block = w.row(begin + o);
    BlockScales scales;
    for (std::size_t at = 0; at < w.in / group_values; block += bytes_of<T>()) {
      scales_of<T>(block, half_at(block + first_half<T>()),
                   has_minimum<T>() ? half_at(block + 2) : 0, scales);
      for (std::size_t g = 0; g < values_of<T>() / group_values; ++g, ++at) {
        wholes_of<T>(block, g, whole);
        std::int16_t* to = panel.whole.data() + at * group_values * panel_outs + o * 2;
        for (std::size_t i = 0; i < group_values; ++i)
          to[i / 2 * panel_outs * 2 + i % 2] = whole[i];
        panel.low[at * panel_outs + o] = scales.group[g].low;
        panel.high[at * panel_outs + o] = scales.group[g].high;
        panel.minimum[at * panel_outs + o] = scales.group[g].minimum;
      }
    }
  }
}

/// Pairs [begin, end) of a group.
void add_pairs(const Panel& panel, const TileProduct& p, std::size_t rows, std::size_t begin,
               std::size_t end, std::int32_t (&sums)[tile_rows_most][panel_outs]) {
  for (std::size_t pair = begin; pair < end; ++pair) {
    const std::int16_t* w = panel.whole.data() + pair * panel_outs * 2;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::int32_t first = p.x[(pair * rows + r) * 2];
      const std::int32_t second = p.x[(pair * rows + r) * 2 + 1];
      for (std::size_t o = 0; o < panel_outs; ++o)
        sums[r][o] += w[2 * o] * first + w[2 * o + 1] * second;
    }
  }
}

void multiply_plain(const Panel& panel, const TileProduct& p, std::size_t rows, TileSums& to) {
  for (std::size_t r = 0; r < rows; ++r) std::fill_n(to[r], panel_outs, 0.0F);
  constexpr std::size_t pairs = group_values / 2;
  for (std::size_t g = 0; g < p.groups; ++g)
    for (std::size_t half = 0; half < 2; ++half) {
      std::int32_t sums[tile_rows_most][panel_outs] = {};
      add_pairs(panel, p, rows, g * pairs + half * pairs / 2, g * pairs + (half + 1) * pairs / 2,
                sums);
      const float* scales = (half == 0 ? panel.low : panel.high).data() + g * panel_outs;
      const float* minima = panel.minimum.data() + g * panel_outs;
      for (std::size_t r = 0; r < rows; ++r) {
        const float scale = p.scales[g * rows + r];
        const float sum = half == 0 ? p.sums[g * rows + r] : 0;
        for (std::size_t o = 0; o < panel_outs; ++o)
          to[r][o] += static_cast<float>(sums[r][o]) * (scale * scales[o]) + minima[o] * sum;
      }
    }
}

}  // namespace

void Panel::resize(std::size_t in) {
  whole.resize(in * panel_outs);
  for (HugeVector<float>* values : {&low, &high, &minimum})
    values->resize(in / group_values * panel_outs);
}

void WholeTiles::resize(std::size_t rows_of_x, std::size_t in_of_x) {
  SLUICE_CHECK(in_of_x % group_values == 0, "whole groups");
  rows = rows_of_x;
  in = in_of_x;
  in_bytes = uses(Isa::vnni);
  const std::size_t whole_tiles = (rows + amx_rows - 1) / amx_rows * amx_rows;
  for_amx =
      uses(Isa::amx) && rows > amx_rows && (whole_tiles - rows) * amx_empty_share <= whole_tiles;
  const std::size_t most = in_bytes ? pair_rows_most : tile_rows_most;
  const std::size_t count = (rows + most - 1) / most;
  const std::size_t even = (rows + count - 1) / count;
  each = for_amx ? amx_rows : std::max<std::size_t>((even + 1) / 2 * 2, 2);
  grow(whole, tiles() * each * in);
  grow(scales, tiles() * each * (in / group_values));
  grow(sums, tiles() * each * (in / group_values));
  if (in_bytes) grow(totals, tiles() * each * (in / group_values) * 2);
  tile_pieces = in_bytes ? std::max<std::size_t>(each * in / values_of_piece, 1) : 1;
}

TileProduct::TileProduct(const WholeTiles& t, std::size_t tile)
    : x(t.whole.data() + tile * t.each * t.in),
      scales(t.scales.data() + tile * t.each * (t.in / group_values)),
      sums(t.sums.data() + tile * t.each * (t.in / group_values)),
      totals(t.in_bytes ? t.totals.data() + tile * t.each * (t.in / group_values) * 2 : nullptr),
      groups(t.in / group_values) {}

void WholeTiles::fill(std::span<const float> x, std::size_t piece) {
  thread_local std::vector<float> zeros;
  const std::size_t groups = in / group_values, tile = piece / tile_pieces;
  const std::size_t first = groups * (piece % tile_pieces) / tile_pieces;
  const std::size_t count = groups * (piece % tile_pieces + 1) / tile_pieces - first;
  if (zeros.size() < in && (tile + 1) * each > rows) zeros.resize(in);
  const float* from[amx_rows];
  for (std::size_t r = 0; r < each; ++r)
    from[r] =
        (tile * each + r < rows ? &x[(tile * each + r) * in] : zeros.data()) + first * group_values;
  if (!in_bytes) return fill_rows(from, tile);
  const std::size_t at = (tile * groups + first) * each;
  fill_tile_vnni(from, count, each,
                 reinterpret_cast<std::int8_t*>(whole.data() + at * group_values),
                 scales.data() + at, sums.data() + at, totals.data() + 2 * at);
}

void WholeTiles::fill_rows(const float* const* from, std::size_t tile) {
  thread_local WholeRows row;
  const std::size_t groups = in / group_values;
  std::int16_t* to = whole.data() + tile * each * in;
  for (std::size_t r = 0; r < each; ++r) {
    row.assign({from[r], in}, in);
    for (std::size_t pair = 0; pair < in / 2; ++pair)
      std::memcpy(to + (pair * each + r) * 2, &row.whole[pair * 2], 2 * sizeof(std::int16_t));
    for (std::size_t g = 0; g < groups; ++g) {
      scales[(tile * groups + g) * each + r] = row.scales[g];
      sums[(tile * groups + g) * each + r] = row.sums[g];
    }
  }
}

namespace {

/// Rows [begin, begin + count) of `w` where they lie, if there are sixteen at equal distances;
/// otherwise of a copy, with zeros behind them. `which`: of copies that are there together.
SixteenRows sixteen_rows(const BlockRows& w, std::size_t begin, std::size_t count,
                         std::size_t which = 0) {
  if (count == panel_outs && w.interleaved == 0) return {w.row(begin), w.row_bytes()};
  if (count == panel_outs) {
    const std::uint8_t* first = w.row(begin);
    const auto stride = static_cast<std::size_t>(w.row(begin + 1) - first);
    bool even = true;
    for (std::size_t r = 2; r < panel_outs; ++r)
      even = even && w.row(begin + r) == first + r * stride;
    if (even) return {first, stride};
  }
  thread_local std::vector<std::uint8_t> copies[2];
  std::vector<std::uint8_t>& copy = copies[which];
  const std::size_t bytes = w.row_bytes();
  copy.assign(panel_outs * bytes, 0);
  for (std::size_t r = 0; r < count; ++r)
    std::memcpy(copy.data() + r * bytes, w.row(begin + r), bytes);
  return {copy.data(), bytes};
}

}  // namespace

void fill_panel(const BlockRows& w, std::size_t begin, std::size_t count, Panel& panel) {
  panel.resize(w.in);
  with_quantised(w.type, [&]<BlockType T>() { panel.kind = kind_of<T>(); });
  if (count < panel_outs) {
    std::ranges::fill(panel.whole, std::int16_t{0});
    for (HugeVector<float>* values : {&panel.low, &panel.high, &panel.minimum})
      std::ranges::fill(*values, 0.0F);
  }
  if (uses(Isa::avx2)) return fill_panel_avx2(w, begin, count, panel);
  with_quantised(w.type, [&]<BlockType T>() { fill_plain<T>(w, begin, count, panel); });
}

void multiply_tile(const Panel& panel, const TileProduct& p, std::size_t rows, TileSums& to) {
  if (uses(Isa::avx2)) return multiply_tile_avx2(panel, p, rows, to);
  multiply_plain(panel, p, rows, to);
}

void multiply_pair(const PairRows& pair, const WholeTiles& x, std::size_t begin, std::size_t end,
                   const PairOut& out) {
  thread_local HugeVector<float> sums;
  const std::size_t size = (end - begin) * x.each * 2 * panel_outs;
  grow(sums, size);
  std::fill_n(sums.data(), size, 0.0F);
  PairProduct p{pair, x, begin, end, out, {}, sums.data()};
  for (const std::size_t side : {0, 1})
    p.rows[side] = sixteen_rows(*pair.matrix[side], pair.begin[side], pair.count[side], side);
  x.for_amx ? multiply_pair_amx(p) : multiply_pair_vnni(p);
}

void multiply_rows(const BlockRows& w, std::size_t begin, std::size_t count, const TileProduct& p,
                   std::size_t rows, TileSums& to) {
  multiply_rows_vnni(w.type, sixteen_rows(w, begin, count), p, rows, to);
}

}  // namespace sluice::kernels
