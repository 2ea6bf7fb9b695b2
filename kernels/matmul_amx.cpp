#include "kernels/matmul_amx.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/amx.h"
#include "kernels/huge_vector.h"
#include "kernels/parallel.h"

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

using amx::depth;
using amx::round_up;
using amx::side;
using amx::strip;
using amx::tile;

/// A longer row is cut, so that a block of x keeps enough rows.
constexpr std::size_t dims_most = 1536;
/// Values of x that stay in the second cache beside the weights of two threads.
constexpr std::size_t block_values = 512 << 10;
/// Values of weights that a thread holds there.
constexpr std::size_t group_values = 192 << 10;
/// Values that are worth a thread.
constexpr std::size_t values_per_thread = 1 << 16;
/// Rows of such lengths meet in the same lines of the second cache and drive each other out.
constexpr std::size_t in_crowded = 8 << 10;
/// Fewer tasks for each thread, and one of them waits for the others.
constexpr std::size_t tasks_per_thread = 4;

/// One block: rows [row, row + rows) of x by dims [dim, dim + dims), packed, with all of W.
struct Part {
  const Weight& weight;
  const float* bias;
  std::span<float> y;
  const Finish& finish;
  std::size_t row = 0, rows = 0, dim = 0, dims = 0;
  const std::uint16_t* x = nullptr;  // [rows / side][dims / depth] tiles

  std::size_t steps() const { return (dims + depth - 1) / depth; }
  bool first() const { return dim == 0; }
  bool last() const { return dim + dims == weight.in(); }
  bool gated() const { return finish.kind == Finish::gate; }
  std::size_t width() const { return gated() ? weight.out() / 2 : weight.out(); }  // y's
  // A strip of W is two rows of tiles: one behind the other, or a gate's and its partner's.
  std::size_t strip_outs() const { return gated() ? side : strip; }
  std::size_t second() const { return gated() ? width() : side; }
};

/// A row of weights becomes a row of each of the tiles along it.
template <typename T>
SLUICE_AMX void copy_row(const T* from, std::size_t count, std::uint16_t* to) {
  for (std::size_t d = 0; d < count; d += depth, to += tile)
    _mm512_store_si512(to, load_narrow(from + d, count - d));
}

/// A strip's weights, `count` of y's outputs from `out`, as two rows of tiles.
SLUICE_AMX void copy_weights(const Part& part, std::size_t out, std::size_t count,
                             std::uint16_t* to) {
  const Weight& weight = part.weight;
  for (std::size_t half = 0; half < 2; ++half, to += part.steps() * tile) {
    const std::size_t skipped = part.gated() ? 0 : half * side;
    for (std::size_t r = 0; r < side && skipped + r < count; ++r) {
      const std::size_t from = (out + half * part.second() + r) * weight.in() + part.dim;
      if (weight.scales().empty())
        copy_row(weight.bf16().data() + from, part.dims, to + r * depth);
      else
        copy_row(weight.int8().data() + from, part.dims, to + r * depth);
    }
  }
}

/// Two rows of weight tiles: as they lie in the matrix, or copied.
struct WeightTiles {
  const std::uint16_t* at = nullptr;
  std::size_t row = depth;  // from a row of a tile to the next
  std::size_t step = tile;  // from a tile to the next along a row
  std::size_t second = 0;   // from the first row of tiles to the second
};

/// Results of a strip by a strip, four tiles [16 outputs, 16 rows], that are not in y yet.
struct Results {
  const Part& part;
  alignas(64) float tiles[4][side * side];
  std::size_t row = 0, out = 0;
  std::size_t pieces;  // that it is stored in
  std::size_t stored;

  explicit Results(const Part& of) : part(of), pieces(of.gated() ? 2 : 4), stored(pieces) {}
  bool waits() const { return stored < pieces; }
};

/// One tile, turned: 16 rows of 16 outputs of W from `out`, and what they are scaled by and have
/// added.
struct Turned {
  __m512i rows[side];
  __m512 by, bias;

  SLUICE_AMX Turned(const Part& part, const float* c, std::size_t out, __mmask16 here) {
    for (std::size_t i = 0; i < side; ++i) rows[i] = _mm512_load_si512(c + i * side);
    amx::transpose(rows);
    const bool scaled = !part.weight.scales().empty();
    by = scaled ? _mm512_maskz_loadu_ps(here, part.weight.scales().data() + out)
                : _mm512_set1_ps(1.0F);
    bias = part.first() && part.bias != nullptr ? _mm512_maskz_loadu_ps(here, part.bias + out)
                                                : _mm512_setzero_ps();
  }
  SLUICE_AMX __m512 row(std::size_t i) const {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(rows[i]), by, bias);
  }
};

/// Sixteen rows of a gate and its partner.
SLUICE_AMX inline void store_gated(const Results& results, std::size_t half) {
  const Part& part = results.part;
  const std::size_t row = results.row + half * side;
  if (row >= part.rows) return;
  const __mmask16 here = tail_mask(std::min(side, part.width() - results.out));
  const Turned gate(part, results.tiles[2 * half], results.out, here);
  const Turned up(part, results.tiles[2 * half + 1], results.out + part.second(), here);
  float* to = part.y.data() + (part.row + row) * part.width() + results.out;
  const std::size_t rows = std::min(side, part.rows - row);
  for (std::size_t i = 0; i < rows; ++i, to += part.width())
    _mm512_mask_storeu_ps(
        to, here, _mm512_mul_ps(activated16(part.finish.activation, gate.row(i)), up.row(i)));
}

/// The next piece goes to y, with scales, bias and what the finish says, or on top of what is
/// there.
SLUICE_AMX inline void store_next(Results& results) {
  const Part& part = results.part;
  const std::size_t which = results.stored++;
  if (part.gated()) return store_gated(results, which);
  const std::size_t row = results.row + which / 2 * side;
  const std::size_t out = results.out + which % 2 * side;
  if (row >= part.rows || out >= part.weight.out()) return;
  const __mmask16 here = tail_mask(std::min(side, part.weight.out() - out));
  const Turned turned(part, results.tiles[which], out, here);
  const bool on_top = !part.first() || part.finish.kind == Finish::add;
  const bool activate = part.last() && part.finish.kind == Finish::activate;
  float* to = part.y.data() + (part.row + row) * part.weight.out() + out;
  const std::size_t rows = std::min(side, part.rows - row);
  for (std::size_t i = 0; i < rows; ++i, to += part.weight.out()) {
    __m512 v = turned.row(i);
    if (on_top) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(here, to));
    if (activate) v = activated16(part.finish.activation, v);
    _mm512_mask_storeu_ps(to, here, v);
  }
}

/// results = w [32 outputs] by x [32 rows]; the second half of either may be left out. Meanwhile,
/// `before` is stored: the tiles' unit and the vectors' work side by side.
template <bool two_w, bool two_x>
SLUICE_AMX void multiply(const WeightTiles& w, const std::uint16_t* x, std::size_t steps,
                         Results& results, Results& before) {
  constexpr std::size_t stride = depth * sizeof(*x);
  const std::size_t w_stride = w.row * sizeof(*x);
  amx::written();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const std::size_t pause = std::max<std::size_t>(steps / 4, 1);
  std::size_t next = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    const std::uint16_t* a = w.at + step * w.step;
    const std::uint16_t* b = x + step * tile;
    _tile_loadd(6, b, stride);
    _tile_loadd(4, a, w_stride);
    _tile_dpbf16ps(0, 4, 6);
    if (two_w) {
      _tile_loadd(5, a + w.second, w_stride);
      _tile_dpbf16ps(1, 5, 6);
    }
    if (two_x) {
      _tile_loadd(7, b + steps * tile, stride);
      _tile_dpbf16ps(2, 4, 7);
      if (two_w) _tile_dpbf16ps(3, 5, 7);
    }
    if (step == next && before.waits()) {
      store_next(before);
      next += pause;
    }
  }
  while (before.waits()) store_next(before);
  constexpr std::size_t side_bytes = side * sizeof(float);
  _tile_stored(0, results.tiles[0], side_bytes);
  if (two_w) _tile_stored(1, results.tiles[1], side_bytes);
  if (two_x) _tile_stored(2, results.tiles[2], side_bytes);
  if (two_w && two_x) _tile_stored(3, results.tiles[3], side_bytes);
  results.stored = 0;
}

SLUICE_AMX void multiply(const WeightTiles& w, bool two_w, const std::uint16_t* x, bool two_x,
                         std::size_t steps, Results& results, Results& before) {
  if (two_w && two_x)
    multiply<true, true>(w, x, steps, results, before);
  else if (two_w)
    multiply<true, false>(w, x, steps, results, before);
  else if (two_x)
    multiply<false, true>(w, x, steps, results, before);
  else
    multiply<false, false>(w, x, steps, results, before);
}

/// Outputs [out, out_end) of all rows of the part.
SLUICE_AMX void outputs(const Part& part, std::size_t out, std::size_t out_end) {
  thread_local HugeVector<std::uint16_t> copied;
  const Weight& weight = part.weight;
  const std::size_t steps = part.steps();
  WeightTiles first{nullptr, depth, tile, steps * tile};
  std::size_t strip_values = strip * steps * depth;
  const std::size_t outs = part.strip_outs();
  const bool whole = part.dims % depth == 0 && (out_end - out) % outs == 0;
  if (weight.scales().empty() && whole && weight.in() % in_crowded != 0) {
    first = {weight.bf16().data() + out * weight.in() + part.dim, weight.in(), depth,
             part.second() * weight.in()};
    strip_values = outs * weight.in();
  } else {
    const std::size_t strips = (out_end - out + outs - 1) / outs;
    grow(copied, strips * strip_values);
    for (std::size_t i = 0; i < strips; ++i)
      copy_weights(part, out + i * outs, std::min(outs, out_end - out - i * outs),
                   &copied[i * strip_values]);
    first.at = copied.data();
  }
  Results results[2] = {Results(part), Results(part)};
  std::size_t turn = 0;
  for (std::size_t row = 0; row < part.rows; row += strip) {
    const std::uint16_t* x = part.x + row * steps * depth;
    WeightTiles w = first;
    for (std::size_t o = out; o < out_end; o += outs, w.at += strip_values, turn ^= 1U) {
      Results& now = results[turn];
      multiply(w, part.gated() || out_end - o > side, x, part.rows - row > side, steps, now,
               results[turn ^ 1U]);
      now.row = row;
      now.out = o;
    }
  }
  Results& last = results[turn ^ 1U];
  while (last.waits()) store_next(last);
}

/// All outputs of the part, over the threads.
void multiply_part(const Part& part) {
  const std::size_t threads = thread_count();
  const std::size_t outs = part.strip_outs();
  const std::size_t strips = (part.width() + outs - 1) / outs;
  const std::size_t most = std::max<std::size_t>(group_values / (strip * part.dims), 1);
  std::size_t groups = (strips + most - 1) / most;
  groups = std::min(round_up(std::max(groups, tasks_per_thread * threads), threads), strips);
  const bool small = part.weight.out() * part.dims * part.rows < values_per_thread * side;
  parallel_for(groups, small ? groups : 1, [&](std::size_t begin, std::size_t end) {
    const amx::Tiles tiles;
    for (std::size_t i = begin; i < end; ++i)
      outputs(part, strips * i / groups * outs,
              std::min(strips * (i + 1) / groups * outs, part.width()));
  });
}

/// Rows [16 i, 16 i + 16) of the part.
SLUICE_AMX void pack_tiles(std::span<const float> x, const Part& part, std::size_t i,
                           std::uint16_t* to) {
  const float* from = &x[(part.row + i * side) * part.weight.in() + part.dim];
  amx::pack_rows([&](std::size_t r) { return from + r * part.weight.in(); },
                 std::min(side, part.rows - i * side), part.dims, to + i * part.steps() * tile);
}

void pack_part(std::span<const float> x, const Part& part, std::uint16_t* to) {
  parallel_for((part.rows + side - 1) / side, values_per_thread / (side * part.dims) + 1,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) pack_tiles(x, part, i, to);
               });
}

}  // namespace

void matmul_amx(std::span<const float> x, const Weight& weight, const float* bias,
                std::span<float> y, std::size_t rows, const Finish& finish) {
  thread_local HugeVector<std::uint16_t> packed;
  const std::size_t in = weight.in();
  const bool gated = finish.kind == Finish::gate;
  SLUICE_CHECK(x.size() >= rows * in && y.size() >= rows * weight.out() / (gated ? 2 : 1),
               "matmul sizes do not fit");
  const std::size_t cuts = gated ? 1 : (in + dims_most - 1) / dims_most;
  const std::size_t dims = round_up((in + cuts - 1) / cuts, depth);
  // Blocks of like size: weights are read anew for each, were it a single strip.
  const std::size_t blocks = (rows * dims + block_values - 1) / block_values;
  const std::size_t block = round_up((rows + blocks - 1) / blocks, strip);
  grow(packed, block * dims);
  for (std::size_t row = 0; row < rows; row += block)
    for (std::size_t dim = 0; dim < in; dim += dims) {
      Part part{
          weight, bias, y, finish, row, std::min(block, rows - row), dim, std::min(dims, in - dim)};
      pack_part(x, part, packed.data());
      part.x = packed.data();
      multiply_part(part);
    }
}

#else

void matmul_amx(std::span<const float>, const Weight&, const float*, std::span<float>, std::size_t,
                const Finish&) {
  SLUICE_CHECK(false, "no tiles on this processor");
}

#endif

}  // namespace sluice::kernels
