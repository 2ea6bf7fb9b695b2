#include "kernels/attention_amx.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/check.h"
#include "kernels/amx.h"
#include "kernels/huge_vector.h"

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {

using amx::depth;
using amx::load_narrow;
using amx::round_up;
using amx::side;
using amx::strip;
using amx::tile;

/// What one thread works with, kept for the next task.
struct Scratch {
  HugeVector<std::uint16_t> keys;     // [tokens / side][dims / depth] tiles: a row is two dims
  HugeVector<std::uint16_t> values;   // [tokens / depth][dims / side] tiles: a row is two tokens
  HugeVector<std::uint16_t> queries;  // [strip, dims]
  HugeVector<std::uint16_t> weights;  // [strip, tokens]
  HugeVector<float> scores;           // [strip, tokens]
  HugeVector<float> mixed;            // [strip, dims]
};

SLUICE_AMX void pack_keys(const float* const* rows, std::size_t count, std::size_t dims,
                          std::uint16_t* to) {
  amx::pack_rows([&](std::size_t i) { return rows[i]; }, count, dims, to);
}

/// Values of up to 32 tokens.
SLUICE_AMX void pack_values(const float* const* rows, std::size_t count, std::size_t dims,
                            std::uint16_t* to) {
  alignas(64) std::uint16_t pairs[depth];  // 0, 16, 1, 17: two rows side by side
  for (std::size_t i = 0; i < depth; ++i)
    pairs[i] = static_cast<std::uint16_t>(i / 2 + i % 2 * side);
  const __m512i order = _mm512_load_si512(pairs);
  for (std::size_t d = 0; d < dims; d += side, to += tile) {
    const __mmask16 here = dims - d >= side ? 0xffff : tail_mask(dims - d);
    for (std::size_t i = 0; i < side; ++i) {
      __m512 two[2];
      for (std::size_t j = 0; j < 2; ++j)
        two[j] = 2 * i + j < count ? _mm512_maskz_loadu_ps(here, rows[2 * i + j] + d)
                                   : _mm512_setzero_ps();
      const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(two[1], two[0]));
      _mm512_store_si512(to + i * depth, _mm512_permutexvar_epi16(order, both));
    }
  }
}

void pack(const AmxTask& task, std::size_t seen, Scratch& scratch) {
  const std::size_t tokens = round_up(seen, strip);
  grow(scratch.keys, tokens * round_up(task.head_dim, depth));
  grow(scratch.values, tokens * round_up(task.head_dim, side));
  const float* keys[depth];
  const float* values[depth];
  std::size_t page = 0, in_page = 0;
  for (std::size_t t = 0; t < tokens; t += depth) {
    const std::size_t count = std::min(depth, seen - t);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = task.head + in_page * task.token_stride;
      keys[i] = task.keys[page] + at;
      values[i] = task.values[page] + at;
      if (++in_page == task.page_tokens) {
        in_page = 0;
        ++page;
      }
    }
    std::uint16_t* to = &scratch.keys[t * round_up(task.head_dim, depth)];
    pack_keys(keys, std::min(count, side), task.head_dim, to);
    pack_keys(keys + side, count - std::min(count, side), task.head_dim,
              to + side * round_up(task.head_dim, depth));
    pack_values(values, count, task.head_dim, &scratch.values[t * round_up(task.head_dim, side)]);
  }
}

/// scores [strip, tokens] = queries [strip, dims] keys. Of one tile's rows, or two.
SLUICE_AMX void score(const std::uint16_t* queries, const std::uint16_t* keys, std::size_t dims,
                      std::size_t tokens, bool two, float* scores) {
  amx::written();
  const std::size_t across = dims / depth;
  for (std::size_t t = 0; t < tokens; t += strip) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::size_t d = 0; d < across; ++d) {
      const std::uint16_t* k = keys + (t / side * across + d) * tile;
      _tile_loadd(6, k, depth * sizeof(*k));
      _tile_loadd(7, k + across * tile, depth * sizeof(*k));
      _tile_loadd(4, queries + d * depth, dims * sizeof(*queries));
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      if (!two) continue;
      _tile_loadd(5, queries + side * dims + d * depth, dims * sizeof(*queries));
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, scores + t, tokens * sizeof(*scores));
    _tile_stored(1, scores + t + side, tokens * sizeof(*scores));
    if (!two) continue;
    _tile_stored(2, scores + side * tokens + t, tokens * sizeof(*scores));
    _tile_stored(3, scores + side * tokens + t + side, tokens * sizeof(*scores));
  }
}

/// 2^x to 3 units in the last place. Source: Taylor on [-1/2, 1/2].
SLUICE_AMX inline __m512 exp2_16(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(x, 0);
  const __m512 r = _mm512_sub_ps(x, n);
  __m512 p = _mm512_set1_ps(1.5403530393381608e-4F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3333558146428443e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.6181291076284772e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.5504108664821580e-2F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.4022650695910071e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.9314718055994531e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, n);
}

/// The weights of a row's first `limit` tokens, not divided by the sum that is returned; zero
/// behind them. `by`: the scores' scale, for powers of two.
SLUICE_AMX float weigh(const float* scores, std::size_t limit, std::size_t tokens, float by,
                       std::uint16_t* to) {
  const std::size_t whole = limit / side * side;
  const __mmask16 rest = tail_mask(limit - whole);
  __m512 most = _mm512_set1_ps(-INFINITY);
  for (std::size_t t = 0; t < whole; t += side)
    most = _mm512_max_ps(most, _mm512_load_ps(scores + t));
  if (rest != 0) most = _mm512_mask_max_ps(most, rest, most, _mm512_load_ps(scores + whole));
  const __m512 scale = _mm512_set1_ps(by);
  const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(most) * by);
  __m512 sum = _mm512_setzero_ps();
  for (std::size_t t = 0; t < whole; t += side) {
    const __m512 e = exp2_16(_mm512_fmsub_ps(_mm512_load_ps(scores + t), scale, top));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + t),
                       reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(e)));
    sum = _mm512_add_ps(sum, e);
  }
  std::size_t done = whole;
  if (rest != 0) {
    const __m512 x = _mm512_fmsub_ps(_mm512_load_ps(scores + whole), scale, top);
    const __m512 e = _mm512_maskz_mov_ps(rest, exp2_16(x));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + whole),
                       reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(e)));
    sum = _mm512_add_ps(sum, e);
    done += side;
  }
  if (done < tokens) std::memset(to + done, 0, (tokens - done) * sizeof(*to));
  return _mm512_reduce_add_ps(sum);
}

/// mixed [strip, dims] = weights [strip, tokens] values.
SLUICE_AMX void mix(const std::uint16_t* weights, const std::uint16_t* values, std::size_t dims,
                    std::size_t tokens, bool two, float* mixed) {
  amx::written();
  const std::size_t across = dims / side;
  for (std::size_t d = 0; d < across; d += 2) {
    const bool pair = d + 1 < across;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::size_t t = 0; t < tokens; t += depth) {
      const std::uint16_t* v = values + (t / depth * across + d) * tile;
      _tile_loadd(6, v, depth * sizeof(*v));
      _tile_loadd(4, weights + t, tokens * sizeof(*weights));
      _tile_dpbf16ps(0, 4, 6);
      if (pair) {
        _tile_loadd(7, v + tile, depth * sizeof(*v));
        _tile_dpbf16ps(1, 4, 7);
      }
      if (!two) continue;
      _tile_loadd(5, weights + side * tokens + t, tokens * sizeof(*weights));
      _tile_dpbf16ps(2, 5, 6);
      if (pair) _tile_dpbf16ps(3, 5, 7);
    }
    float* to = mixed + d * side;
    _tile_stored(0, to, dims * sizeof(*to));
    if (pair) _tile_stored(1, to + side, dims * sizeof(*to));
    if (!two) continue;
    _tile_stored(2, to + side * dims, dims * sizeof(*to));
    if (pair) _tile_stored(3, to + side * dims + side, dims * sizeof(*to));
  }
}

SLUICE_AMX void narrow_row(const float* from, std::size_t count, std::uint16_t* to) {
  for (std::size_t d = 0; d < count; d += depth)
    _mm512_store_si512(to + d, load_narrow(from + d, count - d));
}
SLUICE_AMX void scale_row(const float* from, float by, std::size_t count, float* to) {
  const __m512 all = _mm512_set1_ps(by);
  for (std::size_t d = 0; d < count; d += side)
    _mm512_mask_storeu_ps(to + d, count - d >= side ? 0xffff : tail_mask(count - d),
                          _mm512_mul_ps(_mm512_load_ps(from + d), all));
}

/// Rows [first, first + count) of the task, each head of the group counted.
SLUICE_AMX void attend_strip(const AmxTask& task, std::size_t first, std::size_t count,
                             Scratch& scratch) {
  const std::size_t dims = round_up(task.head_dim, depth);
  const std::size_t dims_out = round_up(task.head_dim, side);
  const auto place = [&](std::size_t r, std::size_t stride) {
    return (first + r) / task.group * stride + (first + r) % task.group * task.head_dim;
  };
  std::size_t seen = 0;
  for (std::size_t r = 0; r < count; ++r) {
    narrow_row(task.q + place(r, task.q_stride), task.head_dim, &scratch.queries[r * dims]);
    seen = std::max<std::size_t>(seen, task.limit[(first + r) / task.group]);
  }
  const std::size_t tokens = round_up(seen, strip);
  const bool two = count > side;
  score(scratch.queries.data(), scratch.keys.data(), dims, tokens, two, scratch.scores.data());
  const float by = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(task.head_dim));
  float sums[strip];
  for (std::size_t r = 0; r < count; ++r)
    sums[r] = weigh(&scratch.scores[r * tokens], task.limit[(first + r) / task.group], tokens, by,
                    &scratch.weights[r * tokens]);
  mix(scratch.weights.data(), scratch.values.data(), dims_out, tokens, two, scratch.mixed.data());
  for (std::size_t r = 0; r < count; ++r)
    scale_row(&scratch.mixed[r * dims_out], 1.0F / sums[r], task.head_dim,
              task.out + place(r, task.out_stride));
}

}  // namespace

SLUICE_AMX void attend_amx(const AmxTask& task) {
  thread_local Scratch scratch;
  const std::size_t seen = *std::max_element(task.limit, task.limit + task.rows);
  const std::size_t tokens = round_up(seen, strip);
  pack(task, seen, scratch);
  grow(scratch.queries, strip * round_up(task.head_dim, depth));
  grow(scratch.weights, strip * tokens);
  grow(scratch.scores, strip * tokens);
  grow(scratch.mixed, strip * round_up(task.head_dim, side));
  const amx::Tiles tiles;
  const std::size_t rows = task.rows * task.group;
  for (std::size_t first = 0; first < rows; first += strip)
    attend_strip(task, first, std::min(strip, rows - first), scratch);
}

#else

void attend_amx(const AmxTask&) { SLUICE_CHECK(false, "no tiles on this processor"); }

#endif

}  // namespace sluice::kernels
