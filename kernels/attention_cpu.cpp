#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "kernels/amx.h"
#include "kernels/attention.h"
#include "kernels/attention_amx.h"
#include "kernels/exp_avx512.h"
#include "kernels/matmul.h"
#include "kernels/onednn.h"
#include "kernels/parallel.h"
#include "kernels/vector_math.h"

namespace sluice::kernels {

namespace {

constexpr std::size_t lanes = 16;
/// Rows of queries, all heads of a group counted, that go through one product: enough to be worth
/// gathering the keys, few enough that their scores stay in the cache.
constexpr std::size_t query_rows = 256;
/// So many rows of a sequence and fewer are taken one by one.
constexpr std::size_t rows_few = 4;
/// Fewer tasks for each thread, and one of them waits for the others.
constexpr std::size_t tasks_per_thread = 4;
/// Products that are worth a thread.
constexpr std::size_t values_per_thread = 1 << 16;

template <typename Value>
[[gnu::always_inline]] inline float dot(const float* a, const Value* b, std::size_t count) {
  float sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) sums[j] += a[i + j] * widen(b[i + j]);
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * widen(b[i]);
  for (const float part : sums) sum += part;
  return sum;
}

template <typename Value>
SLUICE_LOOP void scores_of(const float* query, const Value* keys, std::size_t stride, std::size_t d,
                           std::size_t count, float scale, float* scores) {
  for (std::size_t t = 0; t < count; ++t) scores[t] = dot(query, keys + t * stride, d) * scale;
}
template <typename Value>
SLUICE_LOOP void add_values(const float* weights, const Value* values, std::size_t stride,
                            std::size_t d, std::size_t count, float* mixed) {
  for (std::size_t t = 0; t < count; ++t)
    for (std::size_t i = 0; i < d; ++i) mixed[i] += weights[t] * widen(values[t * stride + i]);
}
SLUICE_LOOP float exponentials_any(float* scores, std::size_t count, float scale) {
  float most = -INFINITY;
  for (std::size_t t = 0; t < count; ++t) most = scores[t] > most ? scores[t] : most;
  float sums[lanes] = {};
  std::size_t t = 0;
  for (; t + lanes <= count; t += lanes)
    for (std::size_t j = 0; j < lanes; ++j) {
      scores[t + j] = exp_f32((scores[t + j] - most) * scale);
      sums[j] += scores[t + j];
    }
  float sum = 0;
  for (; t < count; ++t) sum += scores[t] = exp_f32((scores[t] - most) * scale);
  for (const float part : sums) sum += part;
  return sum;
}

#if defined(__x86_64__)
SLUICE_AVX512 inline __m512 load16(const float* from, __mmask16 here) {
  return _mm512_maskz_loadu_ps(here, from);
}
SLUICE_AVX512 inline __m512 load16(const std::uint16_t* from, __mmask16 here) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(here, from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}
SLUICE_AVX512 inline __mmask16 lanes_here(std::size_t left) {
  return left >= lanes ? 0xffff : tail_mask(left);
}

/// The sum of each of sixteen.
SLUICE_AVX512 inline __m512 sums16(__m512 (&r)[lanes]) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i)
    r[i] = _mm512_add_ps(_mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]),
                         _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]));
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(r[2 * i]), b = _mm512_castps_pd(r[2 * i + 1]);
    r[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i)
    r[i] = _mm512_add_ps(_mm512_shuffle_f32x4(r[2 * i], r[2 * i + 1], 0x88),
                         _mm512_shuffle_f32x4(r[2 * i], r[2 * i + 1], 0xdd));
  return _mm512_add_ps(_mm512_shuffle_f32x4(r[0], r[1], 0x88),
                       _mm512_shuffle_f32x4(r[0], r[1], 0xdd));
}

/// As `scores_of`, sixteen tokens at a time.
template <typename Value>
SLUICE_AVX512 void scores_avx512(const float* query, const Value* keys, std::size_t stride,
                                 std::size_t d, std::size_t count, float scale, float* scores) {
  for (std::size_t t = 0; t < count; t += lanes) {
    const Value* rows[lanes];
    for (std::size_t j = 0; j < lanes; ++j) rows[j] = keys + std::min(t + j, count - 1) * stride;
    __m512 sums[lanes];
#pragma GCC unroll 16
    for (std::size_t j = 0; j < lanes; ++j) sums[j] = _mm512_setzero_ps();
    for (std::size_t i = 0; i < d; i += lanes) {
      const __mmask16 here = lanes_here(d - i);
      const __m512 q = _mm512_maskz_loadu_ps(here, query + i);
#pragma GCC unroll 16
      for (std::size_t j = 0; j < lanes; ++j)
        sums[j] = _mm512_fmadd_ps(q, load16(rows[j] + i, here), sums[j]);
    }
    _mm512_mask_storeu_ps(scores + t, lanes_here(count - t),
                          _mm512_mul_ps(sums16(sums), _mm512_set1_ps(scale)));
  }
}

/// As `add_values` for query heads that lie side by side, whose weights are `apart` from each
/// other.
template <typename Value, std::size_t heads>
SLUICE_AVX512 void add_values_avx512(const float* weights, std::size_t apart, const Value* values,
                                     std::size_t stride, std::size_t d, std::size_t count,
                                     float* mixed) {
  constexpr std::size_t across = 4;  // registers of a head
  for (std::size_t i = 0; i < d; i += across * lanes) {
    __mmask16 here[across];
    __m512 sums[heads][across];
#pragma GCC unroll 4
    for (std::size_t k = 0; k < across; ++k) {
      here[k] = i + k * lanes < d ? lanes_here(d - i - k * lanes) : 0;
#pragma GCC unroll 4
      for (std::size_t h = 0; h < heads; ++h)
        sums[h][k] = _mm512_maskz_loadu_ps(here[k], mixed + h * d + i + k * lanes);
    }
    for (std::size_t t = 0; t < count; ++t) {
#pragma GCC unroll 4
      for (std::size_t k = 0; k < across; ++k) {
        const __m512 v = load16(values + t * stride + i + k * lanes, here[k]);
#pragma GCC unroll 4
        for (std::size_t h = 0; h < heads; ++h)
          sums[h][k] = _mm512_fmadd_ps(_mm512_set1_ps(weights[h * apart + t]), v, sums[h][k]);
      }
    }
#pragma GCC unroll 4
    for (std::size_t k = 0; k < across; ++k)
#pragma GCC unroll 4
      for (std::size_t h = 0; h < heads; ++h)
        _mm512_mask_storeu_ps(mixed + h * d + i + k * lanes, here[k], sums[h][k]);
  }
}

template <typename Value>
void add_group_avx512(std::size_t group, const float* weights, std::size_t apart,
                      const Value* values, std::size_t stride, std::size_t d, std::size_t count,
                      float* mixed) {
  for (std::size_t g = 0; g < group;) {
    const float* w = weights + g * apart;
    float* to = mixed + g * d;
    const std::size_t heads = std::min<std::size_t>(4, group - g);
    if (heads == 4) add_values_avx512<Value, 4>(w, apart, values, stride, d, count, to);
    if (heads == 3) add_values_avx512<Value, 3>(w, apart, values, stride, d, count, to);
    if (heads == 2) add_values_avx512<Value, 2>(w, apart, values, stride, d, count, to);
    if (heads == 1) add_values_avx512<Value, 1>(w, apart, values, stride, d, count, to);
    g += heads;
  }
}

SLUICE_AVX512 float exponentials_avx512(const float* scores, std::size_t count, float scale,
                                        float* to) {
  const std::size_t whole = count / lanes * lanes;
  const __mmask16 rest = tail_mask(count - whole);
  __m512 most = _mm512_set1_ps(-INFINITY);
  for (std::size_t t = 0; t < whole; t += lanes)
    most = _mm512_max_ps(most, _mm512_loadu_ps(scores + t));
  if (rest != 0)
    most = _mm512_mask_max_ps(most, rest, most, _mm512_maskz_loadu_ps(rest, scores + whole));
  const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(most));
  const __m512 by = _mm512_set1_ps(scale);
  __m512 sum = _mm512_setzero_ps();
  for (std::size_t t = 0; t < whole; t += lanes) {
    const __m512 e = exp16(_mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(scores + t), top), by));
    _mm512_storeu_ps(to + t, e);
    sum = _mm512_add_ps(sum, e);
  }
  if (rest != 0) {
    const __m512 x = _mm512_maskz_loadu_ps(rest, scores + whole);
    const __m512 e = exp16(_mm512_mul_ps(_mm512_sub_ps(x, top), by));
    _mm512_mask_storeu_ps(to + whole, rest, e);
    sum = _mm512_mask_add_ps(sum, rest, sum, e);
  }
  return _mm512_reduce_add_ps(sum);
}
#endif

/// Scores become the weights of a row, not divided by the sum that is returned.
float exponentials(float* scores, std::size_t count, float scale) {
#if defined(__x86_64__)
  if (uses(Isa::avx512)) return exponentials_avx512(scores, count, scale, scores);
#endif
  return wide<exponentials_any>(scores, count, scale);
}

SLUICE_LOOP void multiply(float* x, float by, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] *= by;
}

/// Of one page: a query head's scores.
template <typename Value>
void score_page(const float* query, const Value* keys, std::size_t stride, std::size_t d,
                std::size_t count, float scale, float* scores) {
#if defined(__x86_64__)
  if (uses(Isa::avx512)) return scores_avx512(query, keys, stride, d, count, scale, scores);
#endif
  wide<scores_of<Value>>(query, keys, stride, d, count, scale, scores);
}

/// Of one page: what it adds to all query heads of a KV head.
template <typename Value>
void add_page(std::size_t group, const float* weights, std::size_t apart, const Value* values,
              std::size_t stride, std::size_t d, std::size_t count, float* mixed) {
#if defined(__x86_64__)
  if (uses(Isa::avx512))
    return add_group_avx512(group, weights, apart, values, stride, d, count, mixed);
#endif
  for (std::size_t g = 0; g < group; ++g)
    wide<add_values<Value>>(weights + g * apart, values, stride, d, count, mixed + g * d);
}

/// Rows [begin, end) of one sequence, for one KV head.
struct Task {
  std::size_t begin = 0, end = 0, kv_head = 0;
  std::size_t rows() const { return end - begin; }
};

template <typename Value>
struct Work {
  const AttentionShape& shape;
  std::span<const float> q;
  std::span<const std::uint32_t> sequence_of_row, limit_of_row;
  std::span<const PagesOf<Value>> sequences;
  std::span<float> out;

  std::size_t group() const { return shape.heads / shape.kv_heads; }
  std::size_t row_width() const { return shape.kv_row(); }
};

/// All query heads of the KV head go over a page before the next one: it is read once from memory.
template <typename Value>
void one_by_one(const Work<Value>& work, const Task& task) {
  const AttentionShape& shape = work.shape;
  const std::size_t d = shape.head_dim;
  const std::size_t group = work.group();
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  thread_local std::vector<float> scores;
  for (std::size_t row = task.begin; row < task.end; ++row) {
    const PagesOf<Value>& sequence = work.sequences[work.sequence_of_row[row]];
    const std::size_t limit = work.limit_of_row[row];
    const std::size_t at = sequence.offset + task.kv_head * d;  // in a page
    const float* queries = &work.q[row * shape.q_row() + task.kv_head * group * d];
    float* mixed = &work.out[(row * shape.heads + task.kv_head * group) * d];
    scores.resize(group * limit);
    const auto each_page = [&](auto&& visit) {
      for (std::size_t first = 0, page = 0; first < limit; first += shape.page_tokens, ++page)
        visit(page, first, std::min(shape.page_tokens, limit - first));
    };
    each_page([&](std::size_t page, std::size_t first, std::size_t count) {
      for (std::size_t g = 0; g < group; ++g)
        score_page(queries + g * d, sequence.keys[page] + at, work.row_width(), d, count, scale,
                   &scores[g * limit + first]);
    });
    std::fill_n(mixed, group * d, 0.0F);
    thread_local std::vector<float> sums;
    sums.resize(group);
    for (std::size_t g = 0; g < group; ++g) sums[g] = exponentials(&scores[g * limit], limit, 1.0F);
    each_page([&](std::size_t page, std::size_t first, std::size_t count) {
      add_page(group, &scores[first], limit, sequence.values[page] + at, work.row_width(), d, count,
               mixed);
    });
    for (std::size_t g = 0; g < group; ++g) wide<multiply>(mixed + g * d, 1.0F / sums[g], d);
  }
}

/// `count` rows of `d` values that lie `stride` apart, one after the other.
template <typename Value>
SLUICE_LOOP void gather_any(const Value* from, std::size_t stride, std::size_t d, std::size_t count,
                            float* to) {
  for (std::size_t t = 0; t < count; ++t)
    for (std::size_t i = 0; i < d; ++i) to[t * d + i] = widen(from[t * stride + i]);
}
template <typename Value>
void gather(const Value* from, std::size_t stride, std::size_t d, std::size_t count, float* to) {
  wide<gather_any<Value>>(from, stride, d, count, to);
}

/// What one thread works with, kept for the next task.
struct Scratch {
  std::vector<float> queries, keys, values, scores, mixed, sums;
};

template <typename Value>
std::size_t most_seen(const Work<Value>& work, const Task& task) {
  return *std::max_element(&work.limit_of_row[task.begin],
                           &work.limit_of_row[task.begin] + task.rows());
}

/// All query heads of the KV head and all rows of the block as one product with the keys, and one
/// with the values; both are in `scratch` already.
template <typename Value>
void as_products(const Work<Value>& work, const Task& block, Scratch& scratch) {
  const AttentionShape& shape = work.shape;
  const std::size_t d = shape.head_dim;
  const std::size_t group = work.group();
  const std::size_t rows = block.rows() * group;
  const std::size_t seen = most_seen(work, block);
  auto& [queries, keys, values, scores, mixed, sums] = scratch;
  queries.resize(rows * d);
  scores.resize(rows * seen);
  mixed.resize(rows * d);
  sums.resize(rows);
  gather(&work.q[block.begin * shape.q_row() + block.kv_head * group * d], shape.q_row(), group * d,
         block.rows(), queries.data());
  sgemm({.transposed = true, .m = rows, .n = seen, .k = d, .c_stride = seen}, queries.data(),
        keys.data(), scores.data());
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t limit = work.limit_of_row[block.begin + r / group];
    sums[r] = exponentials(&scores[r * seen], limit, scale);
    std::fill(&scores[r * seen] + limit, &scores[r * seen] + seen, 0.0F);
  }
  sgemm({.m = rows, .n = d, .k = seen, .c_stride = d}, scores.data(), values.data(), mixed.data());
  // Divided here: a head's width is shorter than what it has seen.
  for (std::size_t r = 0; r < rows; ++r) {
    wide<multiply>(&mixed[r * d], 1.0F / sums[r], d);
    const std::size_t row = block.begin + r / group;
    std::memcpy(&work.out[(row * shape.heads + block.kv_head * group + r % group) * d],
                &mixed[r * d], d * sizeof(float));
  }
}

/// What the task sees of its head's keys and values, one after the other, in f32.
template <typename Value>
void gather_seen(const Work<Value>& work, const Task& task, Scratch& scratch) {
  const AttentionShape& shape = work.shape;
  const std::size_t d = shape.head_dim;
  const std::size_t seen = most_seen(work, task);
  scratch.keys.resize(seen * d);
  scratch.values.resize(seen * d);
  const PagesOf<Value>& sequence = work.sequences[work.sequence_of_row[task.begin]];
  const std::size_t head = sequence.offset + task.kv_head * d;
  for (std::size_t t = 0, page = 0; t < seen; t += shape.page_tokens, ++page) {
    const std::size_t count = std::min(shape.page_tokens, seen - t);
    gather(sequence.keys[page] + head, work.row_width(), d, count, &scratch.keys[t * d]);
    gather(sequence.values[page] + head, work.row_width(), d, count, &scratch.values[t * d]);
  }
}

template <typename Value>
Scratch& scratch_of() {
  thread_local Scratch scratch;
  return scratch;
}

/// Block after block over keys and values that are gathered once.
template <typename Value>
void in_blocks(const Work<Value>& work, const Task& task, std::size_t block_rows) {
  Scratch& scratch = scratch_of<Value>();
  if (task.rows() > rows_few) gather_seen(work, task, scratch);
  for (std::size_t begin = task.begin; begin < task.end; begin += block_rows) {
    const Task block{begin, std::min(begin + block_rows, task.end), task.kv_head};
    if (block.rows() <= rows_few)
      one_by_one(work, block);
    else
      as_products(work, block, scratch);
  }
}

/// Tiles are made of f32. What was bf16 is gathered first, and narrowed to what it was.
template <typename Value>
void on_amx(const Work<Value>& work, const Task& task) {
  const AttentionShape& shape = work.shape;
  const std::size_t head = task.kv_head * work.group() * shape.head_dim;
  const std::size_t width = shape.heads * shape.head_dim;
  AmxTask amx{.rows = task.rows(),
              .group = work.group(),
              .head_dim = shape.head_dim,
              .q = &work.q[task.begin * shape.q_row() + head],
              .out = &work.out[task.begin * width + head],
              .q_stride = shape.q_row(),
              .out_stride = width,
              .limit = &work.limit_of_row[task.begin],
              .keys = {},
              .values = {}};
  if constexpr (std::is_same_v<Value, float>) {
    const PagedSequence& sequence = work.sequences[work.sequence_of_row[task.begin]];
    amx.keys = sequence.keys;
    amx.values = sequence.values;
    amx.head = sequence.offset + task.kv_head * shape.head_dim;
    amx.page_tokens = shape.page_tokens;
    amx.token_stride = work.row_width();
    attend_amx(amx);
  } else {
    Scratch& scratch = scratch_of<Value>();
    gather_seen(work, task, scratch);
    const float* keys = scratch.keys.data();
    const float* values = scratch.values.data();
    amx.keys = {&keys, 1};
    amx.values = {&values, 1};
    amx.page_tokens = most_seen(work, task);
    amx.token_stride = shape.head_dim;
    attend_amx(amx);
  }
}

template <typename Value>
void attend(const Work<Value>& work) {
  const AttentionShape& shape = work.shape;
  const std::span<const std::uint32_t> sequence_of_row = work.sequence_of_row;
  const std::size_t block_rows =
      std::max<std::size_t>(query_rows * shape.kv_heads / shape.heads, 2 * rows_few);
  const std::size_t rows = sequence_of_row.size();
  thread_local std::vector<std::size_t> starts;  // of each sequence's rows
  starts.clear();
  std::size_t scores = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    if (row == 0 || sequence_of_row[row] != sequence_of_row[row - 1]) starts.push_back(row);
    scores += work.limit_of_row[row] * shape.heads;
  }
  // A task gathers its keys once, so whole sequences are best; blocks where these are too few.
  const bool whole = starts.size() * shape.kv_heads >= tasks_per_thread * thread_count();
  thread_local std::vector<Task> kept;  // the caller's, whoever helps
  std::vector<Task>& tasks = kept;
  tasks.clear();
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const std::size_t last = s + 1 < starts.size() ? starts[s + 1] : rows;
    const std::size_t step = whole ? last - starts[s] : block_rows;
    for (std::size_t begin = starts[s]; begin < last; begin += step)
      for (std::size_t head = 0; head < shape.kv_heads; ++head)
        tasks.push_back({begin, std::min(begin + step, last), head});
  }
  const std::size_t grain = scores * shape.head_dim < values_per_thread ? tasks.size() : 1;
  const bool amx = shape.narrow && uses(Isa::amx);
  parallel_for(tasks.size(), grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      if (amx && tasks[i].rows() > rows_few)
        on_amx(work, tasks[i]);
      else
        in_blocks(work, tasks[i], block_rows);
  });
}

}  // namespace

void attention_cpu(const AttentionShape& shape, std::span<const float> q,
                   std::span<const std::uint32_t> sequence_of_row,
                   std::span<const std::uint32_t> limit_of_row,
                   std::span<const PagedSequence> sequences, std::span<float> out) {
  attend(Work<float>{shape, q, sequence_of_row, limit_of_row, sequences, out});
}

void attention_cpu(const AttentionShape& shape, std::span<const float> q,
                   std::span<const std::uint32_t> sequence_of_row,
                   std::span<const std::uint32_t> limit_of_row,
                   std::span<const NarrowSequence> sequences, std::span<float> out) {
  attend(Work<std::uint16_t>{shape, q, sequence_of_row, limit_of_row, sequences, out});
}

}  // namespace sluice::kernels
