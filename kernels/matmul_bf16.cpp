#include "kernels/matmul_bf16.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/bf16_avx512.h"
#include "kernels/exp_avx512.h"
#include "kernels/huge_vector.h"
#include "kernels/parallel.h"

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t depth = 2 * lanes;       // values of a row that are laid out together
constexpr std::size_t strip = 12;              // rows of x
constexpr std::size_t panel_outs = 2 * lanes;  // outputs; of a gated product half are partners
/// A longer row is cut, so that a panel stays in the second cache.
constexpr std::size_t dims_most = bf16_gated_in_most;
/// Values of weights that a thread holds there.
constexpr std::size_t group_values = 192 << 10;
/// Rows that meet a group of panels before it is laid out again for others.
constexpr std::size_t rows_most = 512;
/// Values of x that are worth a thread, and multiplications.
constexpr std::size_t values_per_thread = 1 << 16;
constexpr std::size_t products_per_thread = 1 << 20;
/// Fewer tasks for each thread, and one of them waits for the others.
constexpr std::size_t tasks_per_thread = 4;

constexpr std::size_t parts_of(std::size_t count, std::size_t each) {
  return (count + each - 1) / each;
}

/// Pairs of values along a row. A strip: the pairs of 12 rows, one column of pairs after the other;
/// a panel: those of 32 rows of weights.
using Pair = std::uint32_t;

/// One block: all rows of x by dims [dim, dim + dims), with all of W.
struct Part {
  const Weight& weight;
  const float* bias;
  std::span<float> y;
  const Finish& finish;
  std::size_t rows = 0, dim = 0, dims = 0;
  const Pair* x = nullptr;

  std::size_t pairs() const { return parts_of(dims, depth) * lanes; }
  // A store of a strip's last column reaches past it.
  std::size_t strip_pairs() const { return pairs() * strip + lanes; }
  std::size_t panel_pairs() const { return pairs() * panel_outs; }
  bool first() const { return dim == 0; }
  bool last() const { return dim + dims == weight.in(); }
  bool gated() const { return finish.kind == Finish::gate; }
  std::size_t width() const { return gated() ? weight.out() / 2 : weight.out(); }  // y's
  // A panel's two halves: sixteen outputs and the next, or gates and their partners.
  std::size_t outs_each() const { return gated() ? lanes : panel_outs; }
  std::size_t second() const { return gated() ? width() : lanes; }
};

/// Rows [12 i, 12 i + 12) of x as a strip; what is missing is zero.
SLUICE_AVX512_BF16 void lay_strip(const float* x, const Part& part, std::size_t i, Pair* to) {
  const std::size_t in = part.weight.in();
  const float* from = x + i * strip * in + part.dim;
  const std::size_t count = std::min(strip, part.rows - i * strip);
  for (std::size_t d = 0; d < part.dims; d += depth) {
    __m512i r[lanes];
    for (std::size_t row = 0; row < lanes; ++row)
      r[row] =
          row < count ? load_narrow(from + row * in + d, part.dims - d) : _mm512_setzero_si512();
    transpose(r);
    for (std::size_t pair = 0; pair < lanes; ++pair, to += strip) _mm512_storeu_si512(to, r[pair]);
  }
}

/// Half a panel: `count` rows of weights from `from`, and zeros for the others.
template <typename T>
SLUICE_AVX512_BF16 void lay_rows(const T* from, std::size_t in, std::size_t count, std::size_t dims,
                                 Pair* to) {
  for (std::size_t d = 0; d < dims; d += depth) {
    __m512i r[lanes];
    for (std::size_t row = 0; row < lanes; ++row)
      r[row] = row < count ? load_narrow(from + row * in + d, dims - d) : _mm512_setzero_si512();
    transpose(r);
    for (std::size_t pair = 0; pair < lanes; ++pair, to += panel_outs)
      _mm512_store_si512(to, r[pair]);
  }
}

/// The panel of y's outputs from `out`.
void lay_panel(const Part& part, std::size_t out, Pair* to) {
  const std::size_t in = part.weight.in();
  for (std::size_t half = 0; half < 2; ++half, to += lanes) {
    const std::size_t skipped = part.gated() ? 0 : half * lanes;
    const std::size_t left = part.width() - out;
    const std::size_t count = left <= skipped ? 0 : std::min(lanes, left - skipped);
    const std::size_t at = count == 0 ? 0 : (out + half * part.second()) * in + part.dim;
    if (part.weight.scales().empty())
      lay_rows(part.weight.bf16().data() + at, in, count, part.dims, to);
    else
      lay_rows(part.weight.int8().data() + at, in, count, part.dims, to);
  }
}

/// A strip's sums with a panel.
struct alignas(64) Sums {
  float of[strip][panel_outs];
};

/// The first R rows of a strip.
template <std::size_t R>
SLUICE_AVX512_BF16 void multiply(const Pair* x, const Pair* w, std::size_t pairs, Sums& to) {
  __m512 sums[R][2];
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) sums[r][0] = sums[r][1] = _mm512_setzero_ps();
  for (std::size_t i = 0; i < pairs; ++i, x += strip, w += panel_outs) {
    const auto low = reinterpret_cast<__m512bh>(_mm512_load_si512(w));
    const auto high = reinterpret_cast<__m512bh>(_mm512_load_si512(w + lanes));
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r) {
      const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(x[r])));
      sums[r][0] = _mm512_dpbf16_ps(sums[r][0], pair, low);
      sums[r][1] = _mm512_dpbf16_ps(sums[r][1], pair, high);
    }
  }
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) {
    _mm512_store_ps(to.of[r], sums[r][0]);
    _mm512_store_ps(to.of[r] + lanes, sums[r][1]);
  }
}

void multiply(const Pair* x, std::size_t rows, const Pair* w, std::size_t pairs, Sums& to) {
  if (rows > 8) return multiply<strip>(x, w, pairs, to);
  if (rows > 4) return multiply<8>(x, w, pairs, to);
  multiply<4>(x, w, pairs, to);
}

/// What sixteen outputs of W are scaled by, and have added.
struct Outputs {
  __m512 by, bias;
  __mmask16 here;

  SLUICE_AVX512_BF16 Outputs(const Part& part, std::size_t out, std::size_t count)
      : here(tail_mask(std::min(lanes, count))) {
    by = part.weight.scales().empty()
             ? _mm512_set1_ps(1.0F)
             : _mm512_maskz_loadu_ps(here, part.weight.scales().data() + out);
    bias = part.first() && part.bias != nullptr ? _mm512_maskz_loadu_ps(here, part.bias + out)
                                                : _mm512_setzero_ps();
  }
  SLUICE_AVX512_BF16 __m512 of(const float* sums) const {
    return _mm512_fmadd_ps(_mm512_load_ps(sums), by, bias);
  }
};

/// Sums go to y, with scales, bias and what the finish says, or on top of what is there.
SLUICE_AVX512_BF16 void store(const Part& part, const Sums& sums, std::size_t row, std::size_t rows,
                              std::size_t out) {
  const std::size_t width = part.width();
  float* to = part.y.data() + row * width + out;
  if (part.gated()) {
    const Outputs gate(part, out, width - out), up(part, width + out, width - out);
    for (std::size_t r = 0; r < rows; ++r)
      _mm512_mask_storeu_ps(to + r * width, gate.here,
                            _mm512_mul_ps(activated16(part.finish.activation, gate.of(sums.of[r])),
                                          up.of(sums.of[r] + lanes)));
    return;
  }
  const bool on_top = !part.first() || part.finish.kind == Finish::add;
  const bool activate = part.last() && part.finish.kind == Finish::activate;
  for (std::size_t skip = 0; skip < panel_outs && out + skip < width; skip += lanes) {
    const Outputs outputs(part, out + skip, width - out - skip);
    for (std::size_t r = 0; r < rows; ++r) {
      float* at = to + r * width + skip;
      __m512 v = outputs.of(sums.of[r] + skip);
      if (on_top) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(outputs.here, at));
      if (activate) v = activated16(part.finish.activation, v);
      _mm512_mask_storeu_ps(at, outputs.here, v);
    }
  }
}

/// Panels [begin, end) with strips [first, last).
void multiply_group(const Part& part, std::size_t begin, std::size_t end, std::size_t first,
                    std::size_t last) {
  thread_local HugeVector<Pair> panels;
  grow(panels, (end - begin) * part.panel_pairs());
  for (std::size_t p = begin; p < end; ++p)
    lay_panel(part, p * part.outs_each(), &panels[(p - begin) * part.panel_pairs()]);
  Sums sums;
  for (std::size_t s = first; s < last; ++s) {
    const std::size_t rows = std::min(strip, part.rows - s * strip);
    for (std::size_t p = begin; p < end; ++p) {
      multiply(part.x + s * part.strip_pairs(), rows, &panels[(p - begin) * part.panel_pairs()],
               part.pairs(), sums);
      store(part, sums, s * strip, rows, p * part.outs_each());
    }
  }
}

/// All outputs of the part, over the threads.
void multiply_part(const Part& part) {
  const std::size_t threads = thread_count();
  const std::size_t strips = parts_of(part.rows, strip);
  const std::size_t panels = parts_of(part.width(), part.outs_each());
  const std::size_t down = parts_of(part.rows, rows_most);
  const std::size_t most = std::max<std::size_t>(group_values / (2 * part.panel_pairs()), 1);
  // As many tasks for each thread, and as large.
  const std::size_t wanted =
      std::max(parts_of(panels, most), parts_of(tasks_per_thread * threads, down));
  const std::size_t across = std::min(parts_of(wanted, threads) * threads, panels);
  const std::size_t tasks = across * down;
  const bool small = part.weight.out() * part.dims * part.rows < products_per_thread;
  parallel_for(tasks, small ? tasks : 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t over = i / down, below = i % down;
      multiply_group(part, panels * over / across, panels * (over + 1) / across,
                     strips * below / down, strips * (below + 1) / down);
    }
  });
}

}  // namespace

void matmul_bf16(std::span<const float> x, const Weight& weight, const float* bias,
                 std::span<float> y, std::size_t rows, const Finish& finish) {
  thread_local HugeVector<Pair> kept;
  HugeVector<Pair>& laid = kept;  // this thread's, for all who take part
  const std::size_t in = weight.in();
  const bool gated = finish.kind == Finish::gate;
  SLUICE_CHECK(x.size() >= rows * in && y.size() >= rows * weight.out() / (gated ? 2 : 1),
               "matmul sizes do not fit");
  const std::size_t cuts = gated ? 1 : parts_of(in, dims_most);
  const std::size_t dims = parts_of(parts_of(in, cuts), depth) * depth;
  const std::size_t strips = parts_of(rows, strip);
  for (std::size_t dim = 0; dim < in; dim += dims) {
    Part part{weight, bias, y, finish, rows, dim, std::min(dims, in - dim)};
    grow(laid, strips * part.strip_pairs());
    parallel_for(strips, values_per_thread / (strip * part.dims) + 1,
                 [&](std::size_t begin, std::size_t end) {
                   for (std::size_t i = begin; i < end; ++i)
                     lay_strip(x.data(), part, i, &laid[i * part.strip_pairs()]);
                 });
    part.x = laid.data();
    multiply_part(part);
  }
}

#else

void matmul_bf16(std::span<const float>, const Weight&, const float*, std::span<float>, std::size_t,
                 const Finish&) {
  SLUICE_CHECK(false, "no products of bf16 on this processor");
}

#endif

}  // namespace sluice::kernels
