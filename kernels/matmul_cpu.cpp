#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/few_rows.h"
#include "kernels/huge_vector.h"
#include "kernels/matmul.h"
#include "kernels/matmul_amx.h"
#include "kernels/matmul_bf16.h"
#include "kernels/matmul_wide.h"
#include "kernels/matvec.h"
#include "kernels/onednn.h"
#include "kernels/parallel.h"
#include "kernels/vector_math.h"

namespace sluice::kernels {

namespace {

/// Up to this many rows the matrix-vector path is taken in any case: it reads the fewest bytes.
constexpr std::size_t rows_few = 4;
/// Values of a matrix that are worth a thread.
constexpr std::size_t values_per_thread = 1 << 16;
/// Outputs and rows of a product that is one thread's: about as fast as a larger one, and small
/// enough that threads end together.
constexpr std::size_t tile_outs = 128;
constexpr std::size_t tile_rows = 512;

SLUICE_LOOP void round_all(const float* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = widen(narrow(from[i]));
}
template <typename T>
SLUICE_LOOP void widen_all(const T* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = widen(from[i]);
}
SLUICE_LOOP void scale_add(float* y, const float* scales, const float* bias, std::size_t count) {
  if (scales != nullptr)
    for (std::size_t i = 0; i < count; ++i) y[i] *= scales[i];
  if (bias != nullptr)
    for (std::size_t i = 0; i < count; ++i) y[i] += bias[i];
}

/// A part of a product: rows [row, row + rows) by outputs [out, out + outs).
struct Tile {
  std::size_t row, rows, out, outs;
};

/// `visit(tile)` for tiles that cover the product, over the threads. How it is cut depends on its
/// shape only, so that results do not depend on the threads.
template <typename Visit>
void each_tile(std::size_t rows, std::size_t out, const Visit& visit) {
  const std::size_t across = (out + tile_outs - 1) / tile_outs;
  const std::size_t down = (rows + tile_rows - 1) / tile_rows;
  parallel_for(across * down, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t row = rows * (i % down) / down;
      const std::size_t first = i / down * tile_outs;
      visit(Tile{row, rows * (i % down + 1) / down - row, first, std::min(tile_outs, out - first)});
    }
  });
}

void many_rows_exact(std::span<const float> x, const Weight& weight, const float* bias,
                     std::span<float> y, std::size_t rows) {
  const std::size_t in = weight.in();
  const std::size_t out = weight.out();
  each_tile(rows, out, [&](const Tile& tile) {
    float* to = y.data() + tile.row * out + tile.out;
    if (bias != nullptr)
      for (std::size_t r = 0; r < tile.rows; ++r)
        std::memcpy(to + r * out, bias + tile.out, tile.outs * sizeof(float));
    sgemm({true, bias != nullptr, tile.rows, tile.outs, in, out}, x.data() + tile.row * in,
          weight.f32().data() + tile.out * in, to);
  });
}

/// Without AVX-512: of rounded values in f32, which is faster than the library's products in bf16
/// (measured: 4 times) and runs anywhere.
void many_rows_narrow(std::span<const float> x, const Weight& weight, const float* bias,
                      std::span<float> y, std::size_t rows) {
  thread_local HugeVector<float> rounded;
  const std::size_t in = weight.in();
  const std::size_t out = weight.out();
  grow(rounded, rows * in);
  float* a = rounded.data();
  parallel_for(rows * in, values_per_thread, [&](std::size_t begin, std::size_t end) {
    wide<round_all>(x.data() + begin, a + begin, end - begin);
  });
  const float* scales = weight.scales().empty() ? nullptr : weight.scales().data();
  each_tile(rows, out, [&](const Tile& tile) {
    thread_local HugeVector<float> panel;
    grow(panel, tile.outs * in);
    if (scales == nullptr)
      wide<widen_all<std::uint16_t>>(weight.bf16().data() + tile.out * in, panel.data(),
                                     tile.outs * in);
    else
      wide<widen_all<std::int8_t>>(weight.int8().data() + tile.out * in, panel.data(),
                                   tile.outs * in);
    float* to = y.data() + tile.row * out + tile.out;
    sgemm({true, false, tile.rows, tile.outs, in, out}, a + tile.row * in, panel.data(), to);
    for (std::size_t r = 0; r < tile.rows; ++r)
      wide<scale_add>(to + r * out, scales == nullptr ? nullptr : scales + tile.out,
                      bias == nullptr ? nullptr : bias + tile.out, tile.outs);
  });
}

/// Products in bf16, of weights in a narrow format.
using NarrowProduct = void (*)(std::span<const float> x, const Weight& weight, const float* bias,
                               std::span<float> y, std::size_t rows, const Finish& finish);
struct InBf16 {
  NarrowProduct product = nullptr;  // null: the processor has none that is faster than f32's
  std::size_t gated_in_most = 0;
};

InBf16 in_bf16(const Weight& weight, std::size_t rows) {
  if (rows <= rows_few || weight.format() == WeightFormat::exact || weight.out() == 0) return {};
  if (uses(Isa::amx)) return {matmul_amx, amx_gated_in_most};
  if (uses(Isa::bf16_fast) && rows > matvec_rows(weight.format(), weight.in()))
    return {matmul_bf16, bf16_gated_in_most};
  if (uses(Isa::avx512) && rows > matvec_rows(weight.format(), weight.in()))
    return {matmul_wide, wide_gated_in_most};
  return {};
}

const float* data_or_null(std::span<const float> values) {
  return values.empty() ? nullptr : values.data();
}

}  // namespace

void matmul_cpu(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                std::span<float> y, std::size_t rows) {
  const std::size_t in = weight.in();
  const std::size_t out = weight.out();
  SLUICE_CHECK(x.size() >= rows * in && y.size() >= rows * out, "matmul sizes do not fit");
  if (rows == 0 || out == 0) return;
  const float* bias_data = data_or_null(bias);
  if (!weight.blocks().empty()) return matmul_blocks(x, weight.blocks(), bias_data, y, rows);
  const bool exact = weight.format() == WeightFormat::exact;
  if (rows > rows_few) {
    if (exact) return many_rows_exact(x, weight, bias_data, y, rows);
    if (const InBf16 narrow = in_bf16(weight, rows); narrow.product != nullptr)
      return narrow.product(x, weight, bias_data, y, rows, {});
    if (rows > matvec_rows(weight.format(), in))
      return many_rows_narrow(x, weight, bias_data, y, rows);
  }
  thread_local FewRowsProduct kept;
  FewRowsProduct& product = kept;  // this thread's, for all who take part
  product.prepare(x, weight, bias, rows);
  parallel_streams(out, product.grain(),
                   [&](std::size_t begin, std::size_t end) { product.compute(y, begin, end); });
}

void matmul_activate_cpu(Activation kind, std::span<const float> x, const Weight& weight,
                         std::span<const float> bias, std::span<float> y, std::size_t rows) {
  const InBf16 narrow = in_bf16(weight, rows);
  if (narrow.product != nullptr && kind != Activation::gelu_erf)
    return narrow.product(x, weight, data_or_null(bias), y, rows, {Finish::activate, kind});
  matmul_cpu(x, weight, bias, y, rows);
  activate_cpu(kind, y.first(rows * weight.out()));
}

void matmul_gated_cpu(Activation kind, std::span<const float> x, const Weight& weight,
                      std::span<const float> bias, std::span<float> y, std::size_t rows) {
  const InBf16 narrow = in_bf16(weight, rows);
  if (narrow.product != nullptr && kind != Activation::gelu_erf &&
      weight.in() <= narrow.gated_in_most)
    return narrow.product(x, weight, data_or_null(bias), y, rows, {Finish::gate, kind});
  const Finish gate{Finish::gate, kind};
  if (bias.empty() && finishes_blocks(weight.blocks(), rows, gate))
    return matmul_blocks(x, weight.blocks(), nullptr, y, rows, gate);
  thread_local HugeVector<float> scratch;
  grow(scratch, rows * weight.out());
  matmul_cpu(x, weight, bias, scratch, rows);
  const std::size_t width = weight.out() / 2;
  SLUICE_CHECK(y.size() >= rows * width, "matmul sizes do not fit");
  gated_cpu(kind, std::span(scratch).first(rows * weight.out()), width, y.first(rows * width));
}

void matmul_add_cpu(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                    std::span<float> y, std::size_t rows) {
  if (const InBf16 narrow = in_bf16(weight, rows); narrow.product != nullptr)
    return narrow.product(x, weight, data_or_null(bias), y, rows, {Finish::add});
  const Finish sum{Finish::add};
  if (bias.empty() && finishes_blocks(weight.blocks(), rows, sum))
    return matmul_blocks(x, weight.blocks(), nullptr, y, rows, sum);
  thread_local HugeVector<float> scratch;
  grow(scratch, rows * weight.out());
  matmul_cpu(x, weight, bias, scratch, rows);
  const std::size_t count = rows * weight.out();
  SLUICE_CHECK(y.size() >= count, "matmul sizes do not fit");
  add_cpu(y.first(count), std::span(scratch).first(count));
}

}  // namespace sluice::kernels
