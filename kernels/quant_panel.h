// Products over quantised blocks: sixteen rows of the matrix against tiles of rows of x in 16-bit
// whole numbers.
//
// For many rows of x, the matrix' sixteen are laid out once as a panel of whole numbers, the same
// for every type, so that the product is one loop. With VNNI two times sixteen stand side by side,
// some groups of each at a time, and few rows of x meet sixteen as they are taken out of the
// blocks. Sums of a group of 32 (or, of Q6_K, of 16) are exact whole numbers, then scaled and added
// in f32, group after group: what comes out of a row of x has the same bits beside any other rows,
// panel or not. For kernels/quant_*.cpp only.
// Shape: x [rows, in]; `in` is a multiple of 32.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/huge_vector.h"
#include "kernels/quant_plain.h"

namespace sluice::kernels {

constexpr std::size_t panel_outs = 16;
/// Rows of a tile of x: their sums stay in registers.
constexpr std::size_t tile_rows_most = 12;
/// The same where they meet two times sixteen rows of the matrix, with VNNI: twelve are 8 % slower.
constexpr std::size_t pair_rows_most = 8;
/// The same on the processor's matrix tiles. For more rows than these, and where at most an eighth
/// of what the tiles hold would be zeros: a single tile takes as long as VNNI does, and one that is
/// not full as long as a full one.
constexpr std::size_t amx_rows = 16;
constexpr std::size_t amx_empty_share = 8;
/// Values of x that are worth a thread while they are rounded.
constexpr std::size_t values_of_piece = 1 << 12;

/// What a group has besides whole numbers and a scale: minima, or scales of their own for its last
/// sixteen values.
enum class PanelKind : std::uint8_t { plain, minima, halves };
template <BlockType T>
constexpr PanelKind kind_of() {
  if constexpr (T == BlockType::q6_k) return PanelKind::halves;
  return has_minimum<T>() ? PanelKind::minima : PanelKind::plain;
}

/// Sixteen rows of a matrix, without VNNI.
struct Panel {
  PanelKind kind = PanelKind::plain;
  HugeVector<std::int16_t> whole;        // [in / 2][16][2]: what meets x
  HugeVector<float> low, high, minimum;  // [in / 32][16], as GroupScales

  void resize(std::size_t in);
};

/// Where sixteen rows' blocks stand: `stride` bytes lie between rows.
struct SixteenRows {
  const std::uint8_t* first = nullptr;
  std::size_t stride = 0;
  const std::uint8_t* row(std::size_t r) const { return first + r * stride; }
};

/// x as in WholeRows, in tiles of as many rows each; an even number, the last ones zeros.
struct WholeTiles {
  std::size_t rows = 0, in = 0;
  std::size_t each = 0;   // rows of a tile
  bool in_bytes = false;  // for VNNI, or the processor's matrix tiles
  bool for_amx = false;   // the latter: each is amx_rows
  /// [tiles][in / 2][each][2]; bytes: [tiles][in / 32][2: high, low][8][each][4].
  HugeVector<std::int16_t> whole;
  HugeVector<float> scales, sums;  // [tiles][in / 32][each], as in WholeRows
  /// For bytes, [tiles][in / 32][2][each]: sums of a group's whole numbers, then of its last 16.
  HugeVector<std::int32_t> totals;

  std::size_t tiles() const { return (rows + each - 1) / each; }
  /// Makes room; then each of `pieces()` is filled.
  void resize(std::size_t rows_of_x, std::size_t in_of_x);
  std::size_t pieces() const { return tiles() * tile_pieces; }
  void fill(std::span<const float> x, std::size_t piece);

 private:
  void fill_rows(const float* const* from, std::size_t tile);

  std::size_t tile_pieces = 1;
};

/// A tile of x.
struct TileProduct {
  TileProduct(const WholeTiles& x, std::size_t tile);
  const std::int16_t* x = nullptr;
  const float* scales = nullptr;
  const float* sums = nullptr;
  const std::int32_t* totals = nullptr;
  std::size_t groups = 0;
};
/// [row][output] of a tile.
using TileSums = float[tile_rows_most][panel_outs];

/// Without VNNI. Rows [begin, begin + count) of `w`, count at most 16; the others are zeros.
void fill_panel(const BlockRows& w, std::size_t begin, std::size_t count, Panel& panel);
/// The product's tile; `rows` as WholeTiles::each.
void multiply_tile(const Panel& panel, const TileProduct& p, std::size_t rows, TileSums& to);

/// Memory that will be read soon.
struct Stretch {
  const std::uint8_t* at = nullptr;
  std::size_t bytes = 0;
};
/// Two times up to sixteen rows of a matrix, or of two of one type: [begin, begin + count) of each.
struct PairRows {
  const BlockRows* matrix[2] = {};
  std::size_t begin[2] = {}, count[2] = {};
  Stretch next[2] = {};  // asked for while these are multiplied
};
/// Where a pair's products with all of x go: y [rows, stride], the second sixteen behind the first;
/// a gate and its partner leave as one.
struct PairOut {
  float* y = nullptr;
  std::size_t stride = 0;
  Finish finish;  // not activate
};
/// A pair with tiles [begin, end) of x. Requires: VNNI.
void multiply_pair(const PairRows& pair, const WholeTiles& x, std::size_t begin, std::size_t end,
                   const PairOut& out);
/// Rows as in a panel with few of x. Requires: VNNI; rows are 2 or 4.
void multiply_rows(const BlockRows& w, std::size_t begin, std::size_t count, const TileProduct& p,
                   std::size_t rows, TileSums& to);

/// The paths. Requires: `uses` them.
void fill_panel_avx2(const BlockRows& w, std::size_t begin, std::size_t count, Panel& panel);
void multiply_tile_avx2(const Panel& panel, const TileProduct& p, std::size_t rows, TileSums& to);
/// Tiles [begin, end) of x with a pair, which stands at `rows`.
struct PairProduct {
  const PairRows& pair;
  const WholeTiles& x;
  std::size_t begin, end;
  const PairOut& out;
  SixteenRows rows[2];
  float* sums;  // room for [rows of the tiles][2] times sixteen, zeros
};
void multiply_pair_vnni(const PairProduct& p);
void multiply_pair_amx(const PairProduct& p);
void multiply_rows_vnni(BlockType type, const SixteenRows& w, const TileProduct& p,
                        std::size_t rows, TileSums& to);
/// A tile's bytes, scales, sums and totals of `each` rows.
void fill_tile_vnni(const float* const* rows, std::size_t groups, std::size_t each, std::int8_t* to,
                    float* scales, float* sums, std::int32_t* totals);

}  // namespace sluice::kernels
