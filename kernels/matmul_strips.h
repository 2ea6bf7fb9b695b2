// Products of many rows by AVX-512 over weights in a narrow format: what matmul_bf16 and
// matmul_wide share.
//
// x is laid out in strips of 12 rows, for all threads. A thread lays out panels of 32 outputs,
// as many as the second cache holds, and each strip meets them one after the other: 24 sums of 16
// outputs in registers. What a word of 32 bits holds, and how words are multiplied, is the form's.
// Bits: a row's do not depend on how many others there are, nor on how the product is cut over
// threads. For kernels/matmul_*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/exp_avx512.h"
#include "kernels/finish.h"
#include "kernels/huge_vector.h"
#include "kernels/matmul.h"
#include "kernels/parallel.h"
#include "kernels/square_avx512.h"

namespace sluice::kernels::strips {

constexpr std::size_t lanes = 16;
constexpr std::size_t strip = 12;              // rows of x
constexpr std::size_t panel_outs = 2 * lanes;  // outputs; of a gated product half are partners
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

/// What a register has sixteen of: the next values of a row, as many as the form puts in one. A
/// strip: the words of 12 rows, one column of words after the other; a panel: those of 32 rows of
/// weights.
using Word = std::uint32_t;

/// One block: all rows of x by dims [dim, dim + dims), with all of W.
struct Part {
  const Weight& weight;
  const float* bias;
  std::span<float> y;
  const Finish& finish;
  std::size_t rows = 0, dim = 0, dims = 0;
  std::size_t words = 0;  // of a row: whole registers
  const Word* x = nullptr;

  // A store of a strip's last column reaches past it.
  std::size_t strip_words() const { return words * strip + lanes; }
  std::size_t panel_words() const { return words * panel_outs; }
  bool first() const { return dim == 0; }
  bool last() const { return dim + dims == weight.in(); }
  bool gated() const { return finish.kind == Finish::gate; }
  std::size_t width() const { return gated() ? weight.out() / 2 : weight.out(); }  // y's
  // A panel's two halves: sixteen outputs and the next, or gates and their partners.
  std::size_t outs_each() const { return gated() ? lanes : panel_outs; }
  std::size_t second() const { return gated() ? width() : lanes; }
};

/// The panel of y's outputs from `out`.
template <typename Form>
void lay_panel(const Part& part, std::size_t out, Word* to) {
  const std::size_t in = part.weight.in();
  for (std::size_t half = 0; half < 2; ++half, to += lanes) {
    const std::size_t skipped = part.gated() ? 0 : half * lanes;
    const std::size_t left = part.width() - out;
    const std::size_t count = left <= skipped ? 0 : std::min(lanes, left - skipped);
    const std::size_t at = count == 0 ? 0 : (out + half * part.second()) * in + part.dim;
    if (part.weight.scales().empty())
      Form::lay_rows(part.weight.bf16().data() + at, in, count, part.dims, to);
    else
      Form::lay_rows(part.weight.int8().data() + at, in, count, part.dims, to);
  }
}

/// A strip's sums with a panel.
struct alignas(64) Sums {
  float of[strip][panel_outs];
};

/// What sixteen outputs of W are scaled by, and have added.
struct Outputs {
  __m512 by, bias;
  __mmask16 here;

  SLUICE_AVX512 Outputs(const Part& part, std::size_t out, std::size_t count)
      : here(tail_mask(std::min(lanes, count))) {
    by = part.weight.scales().empty()
             ? _mm512_set1_ps(1.0F)
             : _mm512_maskz_loadu_ps(here, part.weight.scales().data() + out);
    bias = part.first() && part.bias != nullptr ? _mm512_maskz_loadu_ps(here, part.bias + out)
                                                : _mm512_setzero_ps();
  }
  SLUICE_AVX512 __m512 of(const float* sums) const {
    return _mm512_fmadd_ps(_mm512_load_ps(sums), by, bias);
  }
};

/// Sums go to y, with scales, bias and what the finish says, or on top of what is there.
SLUICE_AVX512 inline void store(const Part& part, const Sums& sums, std::size_t row,
                                std::size_t rows, std::size_t out) {
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

/// A strip's first `rows` rows, by the smallest kernel that holds them: the last strip may have
/// fewer than 12.
template <typename Form>
void multiply_rows(const Word* x, std::size_t rows, const Word* panel, std::size_t words,
                   Sums& to) {
  if (rows > 8) return Form::template multiply<strip>(x, panel, words, to);
  if (rows > 4) return Form::template multiply<8>(x, panel, words, to);
  Form::template multiply<4>(x, panel, words, to);
}

/// Panels [begin, end) with strips [first, last).
template <typename Form>
void multiply_group(const Part& part, std::size_t begin, std::size_t end, std::size_t first,
                    std::size_t last) {
  thread_local HugeVector<Word> panels;
  grow(panels, (end - begin) * part.panel_words());
  for (std::size_t p = begin; p < end; ++p)
    lay_panel<Form>(part, p * part.outs_each(), &panels[(p - begin) * part.panel_words()]);
  Sums sums;
  for (std::size_t s = first; s < last; ++s) {
    const std::size_t rows = std::min(strip, part.rows - s * strip);
    for (std::size_t p = begin; p < end; ++p) {
      const Word* panel = &panels[(p - begin) * part.panel_words()];
      multiply_rows<Form>(part.x + s * part.strip_words(), rows, panel, part.words, sums);
      store(part, sums, s * strip, rows, p * part.outs_each());
    }
  }
}

/// All outputs of the part, over the threads.
template <typename Form>
void multiply_part(const Part& part) {
  const std::size_t threads = thread_count();
  const std::size_t strips = parts_of(part.rows, strip);
  const std::size_t panels = parts_of(part.width(), part.outs_each());
  const std::size_t down = parts_of(part.rows, rows_most);
  const std::size_t most = std::max<std::size_t>(Form::group_words / part.panel_words(), 1);
  // As many tasks for each thread, and as large.
  const std::size_t wanted =
      std::max(parts_of(panels, most), parts_of(tasks_per_thread * threads, down));
  const std::size_t across = std::min(parts_of(wanted, threads) * threads, panels);
  const std::size_t tasks = across * down;
  const bool small = part.weight.out() * part.dims * part.rows < products_per_thread;
  parallel_for(tasks, small ? tasks : 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t over = i / down, below = i % down;
      multiply_group<Form>(part, panels * over / across, panels * (over + 1) / across,
                           strips * below / down, strips * (below + 1) / down);
    }
  });
}

/// The whole product.
template <typename Form>
void multiply_all(std::span<const float> x, const Weight& weight, const float* bias,
                  std::span<float> y, std::size_t rows, const Finish& finish) {
  thread_local HugeVector<Word> kept;
  HugeVector<Word>& laid = kept;  // this thread's, for all who take part
  constexpr std::size_t depth = lanes * Form::values;
  const std::size_t in = weight.in();
  const bool gated = finish.kind == Finish::gate;
  SLUICE_CHECK(x.size() >= rows * in && y.size() >= rows * weight.out() / (gated ? 2 : 1),
               "matmul sizes do not fit");
  const std::size_t cuts = gated ? 1 : parts_of(in, Form::dims_most);
  const std::size_t dims = parts_of(parts_of(in, cuts), depth) * depth;
  const std::size_t strips = parts_of(rows, strip);
  for (std::size_t dim = 0; dim < in; dim += dims) {
    Part part{weight, bias, y, finish, rows, dim, std::min(dims, in - dim)};
    part.words = parts_of(part.dims, depth) * lanes;
    grow(laid, strips * part.strip_words());
    parallel_for(strips, values_per_thread / (strip * part.dims) + 1,
                 [&](std::size_t begin, std::size_t end) {
                   for (std::size_t i = begin; i < end; ++i)
                     Form::lay_strip(x.data(), part, i, &laid[i * part.strip_words()]);
                 });
    part.x = laid.data();
    multiply_part<Form>(part);
  }
}

}  // namespace sluice::kernels::strips
#endif
