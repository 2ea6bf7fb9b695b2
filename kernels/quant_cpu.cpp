#include <dnnl.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/huge_vector.h"
#include "kernels/parallel.h"
#include "kernels/quant.h"

namespace sluice::kernels {

namespace {

/// Values of a matrix that are worth a thread.
constexpr std::size_t values_per_thread = 1 << 16;
/// Rows that are widened at a time: a panel stays in the cache.
constexpr std::size_t panel_rows = 512;

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
  const bool quantised = std::ranges::any_of(
      parts, [](const BlockRows& part) { return layout_of(part.type).values != 1; });
  if (quantised) whole.assign(x.first(rows * in), in);
  parallel_for(out, values_per_thread / in + 1, [&](std::size_t begin, std::size_t end) {
    over_parts(parts, begin, end,
               [&](const BlockRows& part, std::size_t from, std::size_t to, std::size_t first) {
                 block_products({x.data(), &whole, rows, y.data() + first, out}, part, from, to);
               });
  });
}

void many_rows(std::span<const float> x, std::span<const BlockRows> parts, std::size_t out,
               std::span<float> y, std::size_t rows) {
  thread_local HugeVector<float> kept;
  const std::size_t in = parts.front().in;
  grow(kept, std::min(panel_rows, out) * in);
  float* panel = kept.data();
  const auto size = [](std::size_t v) { return static_cast<dnnl_dim_t>(v); };
  for (std::size_t at = 0; at < out; at += panel_rows) {
    const std::size_t count = std::min(panel_rows, out - at);
    parallel_for(count, values_per_thread / in + 1, [&](std::size_t begin, std::size_t end) {
      over_parts(parts, at + begin, at + end,
                 [&](const BlockRows& part, std::size_t from, std::size_t to, std::size_t first) {
                   for (std::size_t r = from; r < to; ++r)
                     read_blocks(part.type, part.row(r), {panel + (first + r - at) * in, in});
                 });
    });
    const auto status = dnnl_sgemm('N', 'T', size(rows), size(count), size(in), 1.0F, x.data(),
                                   size(in), panel, size(in), 0.0F, y.data() + at, size(out));
    SLUICE_CHECK(status == dnnl_success, "oneDNN refused a product");
  }
}

}  // namespace

void matmul_blocks(std::span<const float> x, std::span<const BlockRows> parts, const float* bias,
                   std::span<float> y, std::size_t rows) {
  std::size_t out = 0;
  for (const BlockRows& part : parts) out += part.rows;
  if (rows == 0 || out == 0) return;
  const std::size_t in = parts.front().in;
  SLUICE_CHECK(x.size() >= rows * in && y.size() >= rows * out, "matmul sizes do not fit");
  if (rows <= block_rows_few)
    few_rows(x, parts, out, y, rows);
  else
    many_rows(x, parts, out, y, rows);
  if (bias == nullptr) return;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o) y[r * out + o] += bias[o];
}

}  // namespace sluice::kernels
