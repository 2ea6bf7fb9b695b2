#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/huge_vector.h"
#include "kernels/isa.h"
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
/// Panels that meet a tile of x one after the other: they stay in the second cache.
constexpr std::size_t panels_at_once = 2;

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

/// Panels [begin, end) of a part against all tiles: a tile of x meets one panel after the other
/// while it is near.
void panels_rows(const WholeTiles& x, const BlockRows& part, std::size_t begin, std::size_t end,
                 float* y, std::size_t out) {
  thread_local Panel panels[panels_at_once];
  const auto outs = [&](std::size_t i) { return std::min(panel_outs, part.rows - i * panel_outs); };
  alignas(64) TileSums sums;
  if (x.in_bytes && x.rows <= block_rows_few) {
    for (std::size_t i = begin; i < end; ++i) {
      multiply_rows(part, i * panel_outs, outs(i), {x, 0}, x.each, sums);
      put(sums, x.rows, outs(i), y + i * panel_outs, out);
    }
    return;
  }
  for (std::size_t i = begin; i < end; ++i)
    fill_panel(part, i * panel_outs, outs(i), panels[i - begin]);
  for (std::size_t tile = 0; tile < x.tiles(); ++tile)
    for (std::size_t i = begin; i < end; ++i) {
      multiply_tile(panels[i - begin], {x, tile}, x.each, sums);
      put(sums, std::min(x.each, x.rows - tile * x.each), outs(i),
          y + tile * x.each * out + i * panel_outs, out);
    }
}

/// How many pieces of `panels_at_once` a part has; none, if it isn't quantised.
std::size_t pieces_of(const BlockRows& part) {
  constexpr std::size_t outs = panels_at_once * panel_outs;
  return is_quantised(part) ? (part.rows + outs - 1) / outs : 0;
}

/// All quantised parts in one loop of the threads, then the others.
void tiled_rows(std::span<const float> x, std::span<const BlockRows> parts, std::size_t out,
                std::span<float> y, std::size_t rows) {
  thread_local WholeTiles kept;
  WholeTiles& tiles = kept;  // this thread's, for all who take part
  const std::size_t in = parts.front().in;
  std::size_t pieces = 0;
  for (const BlockRows& part : parts) pieces += pieces_of(part);
  if (pieces != 0) {
    tiles.resize(rows, in);
    parallel_for(tiles.tiles(), values_per_thread / (tiles.each * in) + 1,
                 [&](std::size_t begin, std::size_t end) {
                   for (std::size_t tile = begin; tile < end; ++tile) tiles.fill(x, tile);
                 });
  }
  const auto piece = [&](std::size_t at) {
    std::size_t first = 0;
    for (const BlockRows& part : parts) {
      const std::size_t here = pieces_of(part);
      if (at < here) {
        const std::size_t panels = (part.rows + panel_outs - 1) / panel_outs;
        return panels_rows(tiles, part, at * panels_at_once,
                           std::min(panels, (at + 1) * panels_at_once), y.data() + first, out);
      }
      at -= here;
      first += part.rows;
    }
  };
  const std::size_t values = panels_at_once * panel_outs * in * rows;
  parallel_for(pieces, values_per_thread / values + 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; ++at) piece(at);
  });
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

void matmul_blocks(std::span<const float> x, std::span<const BlockRows> parts, const float* bias,
                   std::span<float> y, std::size_t rows) {
  std::size_t out = 0;
  for (const BlockRows& part : parts) out += part.rows;
  if (rows == 0 || out == 0) return;
  const std::size_t in = parts.front().in;
  SLUICE_CHECK(x.size() >= rows * in && y.size() >= rows * out, "matmul sizes do not fit");
  // One row is bound by reading the matrix, which is fastest row after row.
  if (rows == 1 || (rows <= block_rows_few && !uses(Isa::vnni)))
    few_rows(x, parts, out, y, rows);
  else
    tiled_rows(x, parts, out, y, rows);
  if (bias == nullptr) return;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o) y[r * out + o] += bias[o];
}

}  // namespace sluice::kernels
