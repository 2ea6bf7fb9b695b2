// Two times sixteen rows of a matrix against tiles of x: what its paths share. Some groups of the
// rows are taken out of their blocks at a time, then all tiles meet them. For
// kernels/quant_panel_vnni.cpp and kernels/quant_panel_amx.cpp only.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#include "kernels/exp_avx512.h"
#include "kernels/quant_panel.h"
#include "kernels/turn_rows.h"

namespace sluice::kernels {

/// Groups that are taken out of their blocks at a time: of two of the largest. With a tile of x and
/// its sums they stay in the first cache.
constexpr std::size_t groups_at_once = 18;
/// So many that all turns are about as long; whole blocks.
constexpr std::size_t groups_of_turn(std::size_t groups, std::size_t of_block) {
  const std::size_t blocks = groups / of_block, most = groups_at_once / of_block;
  const std::size_t turns = (blocks + most - 1) / most;
  return (blocks + turns - 1) / turns * of_block;
}

/// What this thread probably multiplies next is asked for while it multiplies these rows, some
/// lines with each step, so that memory is never idle. Into the second cache; the first holds x and
/// the rows.
class Ahead {
 public:
  Ahead(const Stretch (&next)[2], std::size_t steps) {
    for (const std::size_t side : {0, 1}) {
      at_[side] = reinterpret_cast<const char*>(next[side].at);
      lines_[side] = (next[side].bytes + line - 1) / line;
      each_[side] = lines_[side] / steps + 1;
    }
  }
  SLUICE_PANEL_INLINE void ask() {
#pragma GCC unroll 2
    for (std::size_t side = 0; side < 2; ++side) {
      const std::size_t count = std::min(each_[side], lines_[side]);
      for (std::size_t i = 0; i < count; ++i, at_[side] += line)
        _mm_prefetch(at_[side], _MM_HINT_T1);
      lines_[side] -= count;
    }
  }

 private:
  static constexpr std::size_t line = 64;
  const char* at_[2];
  std::size_t lines_[2], each_[2];  // left, of a step
};

/// Sums [rows][2] times sixteen go where they belong: y's rows begin at `to`.
SLUICE_PANEL_VNNI inline void put_pair(const float* sums, std::size_t rows,
                                       const std::size_t (&count)[2], const PairOut& out,
                                       float* to) {
  __mmask16 here[2];
  for (const std::size_t side : {0, 1})
    here[side] = count[side] == panel_outs ? 0xffff : tail_mask(count[side]);
  for (std::size_t r = 0; r < rows; ++r, sums += 2 * panel_outs, to += out.stride) {
    __m512 some[2] = {_mm512_loadu_ps(sums), _mm512_loadu_ps(sums + panel_outs)};
    if (out.finish.kind == Finish::gate) {
      const __m512 gate = activated16(out.finish.activation, some[0]);
      _mm512_mask_storeu_ps(to, here[0], _mm512_mul_ps(gate, some[1]));
      continue;
    }
    for (const std::size_t side : {0, 1}) {
      float* at = to + side * panel_outs;
      if (out.finish.kind == Finish::add)
        some[side] = _mm512_add_ps(_mm512_maskz_loadu_ps(here[side], at), some[side]);
      _mm512_mask_storeu_ps(at, here[side], some[side]);
    }
  }
}

/// Where a pair's products will go: else what waits to be written holds up the next tile's sums.
inline void ask_for_rows(const float* to, std::size_t rows, std::size_t stride) {
  for (std::size_t r = 0; r < rows; ++r)
    for (const std::size_t side : {0, 1})
      __builtin_prefetch(to + r * stride + side * panel_outs, 1);
}

/// Groups [first, first + count) of the pair; the last ones of its rows or not.
struct PairTurn {
  std::size_t first, count;
  bool last;
};

/// The whole product, some groups at a time. `take(rows, count, side)`: takes so many groups out of
/// the blocks from `rows` on. `multiply(turn, tile, sums)`: adds their products with a tile to its
/// sums; after the last turn these are [rows][2] times sixteen.
template <BlockType T, typename Take, typename Multiply>
void multiply_turns(const PairProduct& p, const Take& take, const Multiply& multiply) {
  constexpr std::size_t of_block = values_of<T>() / group_values;
  const WholeTiles& x = p.x;
  const std::size_t groups = x.in / group_values, at_once = groups_of_turn(groups, of_block);
  for (std::size_t first = 0; first < groups; first += at_once) {
    const std::size_t count = std::min(at_once, groups - first);
    const PairTurn turn{first, count, first + count == groups};
    const std::size_t bytes = first / of_block * bytes_of<T>();
    for (const std::size_t side : {0, 1})
      take(SixteenRows{p.rows[side].first + bytes, p.rows[side].stride}, count, side);
    for (std::size_t tile = p.begin; tile < p.end; ++tile) {
      float* const sums = p.sums + (tile - p.begin) * x.each * 2 * panel_outs;
      const std::size_t row = tile * x.each, rows = std::min(x.each, x.rows - row);
      float* const to = p.out.y + row * p.out.stride;
      if (turn.last) ask_for_rows(to, rows, p.out.stride);
      multiply(turn, tile, sums);
      if (turn.last) put_pair(sums, rows, p.pair.count, p.out, to);
    }
  }
}

}  // namespace sluice::kernels
#endif
