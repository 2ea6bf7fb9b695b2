#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/huge_vector.h"
#include "kernels/isa.h"
#include "kernels/next_part.h"
#include "kernels/onednn.h"
#include "kernels/parallel.h"
#include "kernels/quant.h"
#include "kernels/quant_panel.h"

namespace sluice::kernels {

namespace {

/// Values of a matrix that are worth a thread.
constexpr std::size_t values_per_thread = 1 << 16;
/// Rows of f16 or bf16 that are widened at a time.
constexpr std::size_t widened_rows = 128;
/// Rows of a matrix that are one thread's at a time: two panels, which stay in the second cache.
constexpr std::size_t piece_outs = 2 * panel_outs;
/// Rows of x that the whole matrix meets before the next ones, as bytes: so many stay near, and
/// taking the matrix apart anew for the next ones is little.
constexpr std::size_t rows_at_once = 512;

bool is_quantised(const BlockRows& part) { return layout_of(part.type).values != 1; }

/// Calls `body(part, begin, end, first)` for the pieces of parts that hold rows [begin, end) of the
/// whole; `first` is the part's first row in the whole.
template <typename Body>
void over_parts(std::span<const BlockRows> parts, std::size_t begin, std::size_t end,
                const Body& body) {
  std::size_t first = 0;
  for (const BlockRows& part : parts) {
    const std::size_t from = std::max(begin, first);
    const std::size_t to = std::min(end, first + part.rows);
    if (from < to) body(part, from - first, to - first, first);
    first += part.rows;
  }
}

void few_rows(std::span<const float> x, std::span<const BlockRows> parts, std::size_t out,
              std::span<float> y, std::size_t rows) {
  thread_local WholeRows kept;
  WholeRows& whole = kept;  // this thread's, for all who take part
  const std::size_t in = parts.front().in;
  if (any_quantised(parts)) whole.assign(x.first(rows * in), in);
  std::size_t outs = 0;
  for (const BlockRows& part : parts) outs += part.rows;
  parallel_streams(outs, values_per_thread / in + 1, [&](std::size_t begin, std::size_t end) {
    few_block_products({x.data(), &whole, rows, y.data(), out}, parts, begin, end);
  });
}

/// Of a part in f32, f16 or bf16: widened, then oneDNN's.
void plain_rows(std::span<const float> x, const BlockRows& part, std::size_t first, std::size_t out,
                std::span<float> y, std::size_t rows) {
  const std::size_t in = part.in;
  parallel_for((part.rows + widened_rows - 1) / widened_rows, 1,
               [&](std::size_t begin, std::size_t end) {
                 thread_local HugeVector<float> widened;
                 grow(widened, widened_rows * in);
                 for (std::size_t i = begin; i < end; ++i) {
                   const std::size_t at = i * widened_rows;
                   const std::size_t count = std::min(widened_rows, part.rows - at);
                   for (std::size_t r = 0; r < count; ++r)
                     read_blocks(part.type, part.row(at + r), {widened.data() + r * in, in});
                   sgemm({.transposed = true, .m = rows, .n = count, .k = in, .c_stride = out},
                         x.data(), widened.data(), y.data() + first + at);
                 }
               });
}

void put(const TileSums& sums, std::size_t rows, std::size_t count, float* y, std::size_t stride) {
  for (std::size_t r = 0; r < rows; ++r)
    std::memcpy(y + r * stride, sums[r], count * sizeof(float));
}

/// How many pieces of `piece_outs` rows a part has; none, if it isn't quantised.
std::size_t pieces_of(const BlockRows& part) {
  return is_quantised(part) ? (part.rows + piece_outs - 1) / piece_outs : 0;
}

/// Rows of a part that one thread multiplies with all of x, as two panels.
struct Piece {
  const BlockRows* part = nullptr;
  std::size_t begin = 0;  // its first row
  std::size_t count[2] = {};
  std::size_t out = 0;  // where that row's products are in y's rows
};
Piece piece_at(std::span<const BlockRows> parts, std::size_t at) {
  std::size_t first = 0;
  for (const BlockRows& part : parts) {
    const std::size_t here = pieces_of(part);
    if (at < here) {
      const std::size_t begin = at * piece_outs;
      const std::size_t count = std::min(piece_outs, part.rows - begin);
      const std::size_t first_count = std::min(panel_outs, count);
      return {&part, begin, {first_count, count - first_count}, first + begin};
    }
    at -= here;
    first += part.rows;
  }
  SLUICE_CHECK(false, "a piece of the parts");
  return {};
}

/// Where rows [begin, begin + count) stand, those between them counted.
Stretch stretch_of(const BlockRows& part, std::size_t begin, std::size_t count) {
  const std::size_t bytes = std::min(count, part.rows - begin) * part.row_bytes();
  return {part.row(begin), part.interleaved == 0 ? bytes : 2 * bytes};
}

/// Asks for one of so many equal shares of it, into the caches.
void ask_for(const Stretch& next, std::size_t share, std::size_t shares) {
  constexpr std::size_t line = 64;
  for (std::size_t at = next.bytes * share / shares; at < next.bytes * (share + 1) / shares;
       at += line)
    __builtin_prefetch(next.at + at);
}

/// The two panels against all tiles: a tile of x meets one after the other while it is near.
/// `next`: asked for meanwhile.
void panels_rows(const WholeTiles& x, const Piece& piece, const Stretch& next, float* y,
                 std::size_t stride) {
  thread_local Panel panels[2];
  const std::size_t used = piece.count[1] == 0 ? 1 : 2;
  for (std::size_t i = 0; i < used; ++i)
    fill_panel(*piece.part, piece.begin + i * panel_outs, piece.count[i], panels[i]);
  alignas(64) TileSums sums;
  for (std::size_t tile = 0; tile < x.tiles(); ++tile)
    for (std::size_t i = 0; i < used; ++i) {
      ask_for(next, used * tile + i, used * x.tiles());
      multiply_tile(panels[i], {x, tile}, x.each, sums);
      put(sums, std::min(x.each, x.rows - tile * x.each), piece.count[i],
          y + tile * x.each * stride + i * panel_outs, stride);
    }
}

/// Few rows of x, with VNNI.
void direct_rows(const WholeTiles& x, const Piece& piece, float* y, std::size_t stride) {
  alignas(64) TileSums sums;
  for (std::size_t i = 0; i < 2 && piece.count[i] != 0; ++i) {
    multiply_rows(*piece.part, piece.begin + i * panel_outs, piece.count[i], {x, 0}, x.each, sums);
    put(sums, x.rows, piece.count[i], y + i * panel_outs, stride);
  }
}

/// What pairs are multiplied with at a time.
struct TileRange {
  std::size_t begin, end;
};

/// `body(piece, tiles, next)` for each of `count` pieces and all tiles of x, over the threads;
/// `next`: which piece the same thread probably has behind it, or count where it has none.
template <typename Body>
void each_piece(const WholeTiles& x, std::size_t count, const Body& body) {
  const std::size_t at_once = x.in_bytes ? rows_at_once / x.each : x.tiles();
  const std::size_t ranges = (x.tiles() + at_once - 1) / at_once;
  const std::size_t values = piece_outs * x.in * std::min(x.rows, at_once * x.each);
  const std::size_t threads = thread_count(), all = ranges * count;
  parallel_for(all, values_per_thread / values + 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t first = i / count * at_once;
      const std::size_t next = i + 1 < end ? i + 1 : probably_next(all, end, threads);
      body(i % count, TileRange{first, std::min(x.tiles(), first + at_once)},
           next < all ? next % count : count);
    }
  });
}

/// Rounds x, over the threads; what comes of it is this thread's, for all who take part.
const WholeTiles& whole_tiles(std::span<const float> x, std::size_t rows, std::size_t in) {
  thread_local WholeTiles kept;
  WholeTiles& tiles = kept;
  tiles.resize(rows, in);
  const std::size_t values = tiles.each * in * tiles.tiles() / tiles.pieces();
  parallel_for(tiles.pieces(), values_of_piece / (values + 1) + 1,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) tiles.fill(x, i);
               });
  return tiles;
}

/// Gates and their partners, sixteen of each together.
void gated_rows(const WholeTiles& x, std::span<const BlockRows> parts, std::span<float> y,
                const Finish& finish) {
  const std::size_t out = parts[0].rows;
  const std::size_t count = (out + panel_outs - 1) / panel_outs;
  each_piece(x, count, [&](std::size_t at, const TileRange& tiles, std::size_t next) {
    const std::size_t first = at * panel_outs;
    const std::size_t here = std::min(panel_outs, out - first);
    PairRows pair{{&parts[0], &parts[1]}, {first, first}, {here, here}};
    for (std::size_t side = 0; side < 2 && next < count; ++side)
      pair.next[side] = stretch_of(parts[side], next * panel_outs, panel_outs);
    multiply_pair(pair, x, tiles.begin, tiles.end, {y.data() + first, out, finish});
  });
}

/// All quantised parts in one loop of the threads.
void quantised_rows(const WholeTiles& x, std::span<const BlockRows> parts, std::size_t pieces,
                    std::span<float> y, std::size_t out, const Finish& finish) {
  each_piece(x, pieces, [&](std::size_t at, const TileRange& tiles, std::size_t next) {
    const Piece piece = piece_at(parts, at);
    float* to = y.data() + piece.out;
    Stretch behind;
    if (next < pieces) {
      const Piece other = piece_at(parts, next);
      behind = stretch_of(*other.part, other.begin, piece_outs);
    }
    if (!x.in_bytes) return panels_rows(x, piece, behind, to, out);
    if (x.rows <= block_rows_few) return direct_rows(x, piece, to, out);
    const PairRows pair{{piece.part, piece.part},
                        {piece.begin, piece.begin + panel_outs},
                        {piece.count[0], piece.count[1]},
                        {behind, {}}};
    multiply_pair(pair, x, tiles.begin, tiles.end, {to, out, finish});
  });
}

/// The quantised parts, then the others.
void tiled_rows(std::span<const float> x, std::span<const BlockRows> parts, std::size_t out,
                std::span<float> y, std::size_t rows, const Finish& finish) {
  std::size_t pieces = 0;
  for (const BlockRows& part : parts) pieces += pieces_of(part);
  if (pieces != 0)
    quantised_rows(whole_tiles(x, rows, parts.front().in), parts, pieces, y, out, finish);
  std::size_t first = 0;
  for (const BlockRows& part : parts) {
    if (!is_quantised(part)) {
      if (rows <= block_rows_few)
        few_rows(x, {&part, 1}, out, y.subspan(first), rows);
      else
        plain_rows(x, part, first, out, y, rows);
    }
    first += part.rows;
  }
}

}  // namespace

void few_block_products(const FewBlockRows& f, std::span<const BlockRows> parts, std::size_t begin,
                        std::size_t end) {
  over_parts(parts, begin, end,
             [&](const BlockRows& part, std::size_t from, std::size_t to, std::size_t first) {
               block_products({f.x, f.whole, f.rows, f.y + first, f.stride}, part, from, to);
             });
}

bool any_quantised(std::span<const BlockRows> parts) {
  return std::ranges::any_of(parts, is_quantised);
}

bool finishes_blocks(std::span<const BlockRows> parts, std::size_t rows, const Finish& finish) {
  if (parts.empty() || rows <= block_rows_few || !uses(Isa::vnni) ||
      !std::ranges::all_of(parts, is_quantised))
    return false;
  if (finish.kind == Finish::gate)
    return parts.size() == 2 && parts[0].type == parts[1].type && parts[0].rows == parts[1].rows &&
           finish.activation != Activation::gelu_erf;
  return finish.kind == Finish::add;
}

void matmul_blocks(std::span<const float> x, std::span<const BlockRows> parts, const float* bias,
                   std::span<float> y, std::size_t rows, const Finish& finish) {
  std::size_t out = 0;
  for (const BlockRows& part : parts) out += part.rows;
  if (rows == 0 || out == 0) return;
  const std::size_t in = parts.front().in;
  const bool gated = finish.kind == Finish::gate;
  SLUICE_CHECK(x.size() >= rows * in && y.size() >= rows * (gated ? out / 2 : out),
               "matmul sizes do not fit");
  SLUICE_CHECK(
      finish.kind == Finish::store || (bias == nullptr && finishes_blocks(parts, rows, finish)),
      "a finish that these blocks do not have");
  if (gated) return gated_rows(whole_tiles(x, rows, in), parts, y, finish);
  // One row is bound by reading the matrix, which is fastest row after row.
  if (rows == 1 || (rows <= block_rows_few && !uses(Isa::vnni)))
    few_rows(x, parts, out, y, rows);
  else
    tiled_rows(x, parts, out, y, rows, finish);
  if (bias == nullptr) return;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o) y[r * out + o] += bias[o];
}

}  // namespace sluice::kernels
