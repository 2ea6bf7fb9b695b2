// Products of many rows over quantised blocks: sixteen rows of the matrix, laid out once as a panel
// of 16-bit whole numbers, against tiles of x in the same.
//
// Every type becomes the same panel, so that the product is one loop. Sums of a group of 32 (or, of
// Q6_K, of 16) are exact whole numbers, then scaled and added in f32, group after group: what comes
// out of a row of x has the same bits beside any other rows. For kernels/quant_*.cpp only.
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

/// Sixteen rows of a matrix.
struct Panel {
  HugeVector<std::int16_t> whole;        // [in / 2][16][2]: what meets two values of x
  HugeVector<float> low, high, minimum;  // [in / 32][16], as GroupScales
  bool halves = false;                   // the last sixteen of a group have scales of their own
  bool minima = false;

  void resize(std::size_t in);
};

/// x as in WholeRows, in tiles of as many rows each; an even number, the last ones zeros.
struct WholeTiles {
  std::size_t rows = 0, in = 0;
  std::size_t each = 0;            // rows of a tile
  HugeVector<std::int16_t> whole;  // [tiles][in / 2][each][2]
  HugeVector<float> scales, sums;  // [tiles][in / 32][each], as in WholeRows

  std::size_t tiles() const { return (rows + each - 1) / each; }
  /// Makes room; then each tile is filled.
  void resize(std::size_t rows_of_x, std::size_t in_of_x);
  void fill(std::span<const float> x, std::size_t tile);
};

/// A tile against a panel.
struct TileProduct {
  const Panel& panel;
  const std::int16_t* x = nullptr;
  const float* scales = nullptr;
  const float* sums = nullptr;
  std::size_t groups = 0;
};
/// [row][output] of a tile.
using TileSums = float[tile_rows_most][panel_outs];

/// Rows [begin, begin + count) of `w`, count at most 16; the others are zeros.
void fill_panel(const BlockRows& w, std::size_t begin, std::size_t count, Panel& panel);
/// The product's tile; `rows` as WholeTiles::each.
void multiply_tile(const TileProduct& p, std::size_t rows, TileSums& to);

/// The paths. Requires: `uses` them.
void fill_panel_avx2(const BlockRows& w, std::size_t begin, std::size_t count, Panel& panel);
void multiply_tile_avx2(const TileProduct& p, std::size_t rows, TileSums& to);
void multiply_tile_vnni(const TileProduct& p, std::size_t rows, TileSums& to);

}  // namespace sluice::kernels
