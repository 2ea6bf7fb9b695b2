#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/cuda/attention_task.h"

namespace sluice::device {

namespace {

constexpr unsigned warps = 4;
constexpr unsigned threads = warps * warp_size;
constexpr unsigned dims_max = 256;
/// Queries of one key head that a block of few rows serves at most.
constexpr unsigned queries_max = queries_for_tiles - 1;
constexpr unsigned join_warps = 8;
constexpr unsigned join_threads = join_warps * warp_size;

/// A lane's values of a head as they lie in memory: 32 bits of them per register.
template <typename T>
struct Slice {
  using Words = Piece<std::uint32_t>;
  static constexpr unsigned per_word = sizeof(std::uint32_t) / sizeof(T);
  static constexpr unsigned bits = 8 * sizeof(T);
  std::uint32_t words[values_each / per_word];

  __device__ __forceinline__ float operator[](unsigned i) const {
    return widen_bits(words[i / per_word] >> i % per_word * bits, T{});
  }
  /// `whole`: all of them begin on 16 bytes. Else those behind `count` repeat the first.
  __device__ __forceinline__ void load(const T* from, unsigned count, bool whole) {
    if (whole) {
      SLUICE_UNROLL
      for (unsigned w = 0; w < values_each / per_word; w += Words::count) {
        const Words read = *reinterpret_cast<const Words*>(from + w * per_word);
        SLUICE_UNROLL
        for (unsigned i = 0; i < Words::count; ++i) words[w + i] = read.values[i];
      }
      return;
    }
    SLUICE_UNROLL
    for (unsigned w = 0; w < values_each / per_word; ++w) {
      words[w] = 0;
      SLUICE_UNROLL
      for (unsigned i = 0; i < per_word; ++i) {
        const unsigned value = w * per_word + i;
        words[w] |= bits_of(from[value < count ? value : 0]) << i * bits;
      }
    }
  }
  __device__ __forceinline__ void clear_behind(unsigned count) {
    SLUICE_UNROLL
    for (unsigned i = 0; i < values_each; ++i)
      if (i >= count) words[i / per_word] &= ~(0xffffffffU >> (32 - bits) << i % per_word * bits);
  }

 private:
  static __device__ __forceinline__ float widen_bits(std::uint32_t low, Bf16) {
    return device::load(Bf16{static_cast<std::uint16_t>(low)});
  }
  static __device__ __forceinline__ float widen_bits(std::uint32_t low, float) {
    return std::bit_cast<float>(low);
  }
  static __device__ __forceinline__ std::uint32_t bits_of(Bf16 value) { return value.bits; }
  static __device__ __forceinline__ std::uint32_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value);
  }
};

/// Tokens of which a lane reads keys and values before it uses any: as many as registers hold.
template <typename T, unsigned QUERIES>
constexpr unsigned tokens_ahead = sizeof(T) > 2            ? 2
                                  : QUERIES == queries_max ? 3
                                                           : 4;

/// What the lanes that share tokens have found so far, for each query.
template <unsigned QUERIES>
struct Found {
  float most[QUERIES], sum[QUERIES], mixed[QUERIES][values_each];

  __device__ __forceinline__ void clear() {
    SLUICE_UNROLL
    for (unsigned j = 0; j < QUERIES; ++j) {
      most[j] = -INFINITY;
      sum[j] = 0;
      SLUICE_UNROLL
      for (unsigned i = 0; i < values_each; ++i) mixed[j][i] = 0;
    }
  }
  /// Takes what the lanes `mask` further on have found of other tokens.
  __device__ __forceinline__ void join(unsigned mask) {
    SLUICE_UNROLL
    for (unsigned j = 0; j < QUERIES; ++j) {
      const float other_most = __shfl_xor_sync(0xffffffffU, most[j], mask);
      const float other_sum = __shfl_xor_sync(0xffffffffU, sum[j], mask);
      const float next = fmaxf(most[j], other_most);
      const float mine = __expf(most[j] - base_of(next));
      const float theirs = __expf(other_most - base_of(next));
      most[j] = next;
      sum[j] = sum[j] * mine + other_sum * theirs;
      SLUICE_UNROLL
      for (unsigned i = 0; i < values_each; ++i)
        mixed[j][i] = mixed[j][i] * mine + __shfl_xor_sync(0xffffffffU, mixed[j][i], mask) * theirs;
    }
  }
};

/// What the warps of a block have found.
template <unsigned QUERIES, unsigned LANES>
struct alignas(16) Shared {
  float mixed[warps][QUERIES][LANES * values_each];
  float most[warps][QUERIES], sum[warps][QUERIES];
};

/// A lane's side of a block's work: LANES lanes share a token.
template <typename T, unsigned QUERIES, unsigned LANES>
struct Walk {
  static constexpr unsigned groups = threads / LANES;

  const TokenStore<T>& store;
  const std::uint32_t* sequence_pages;
  // The lane's first column in a token's row. A lane behind the head reads the head's first one,
  // counts no columns, and its part of q is zero.
  std::size_t column;
  unsigned count;
  float scale;
  unsigned limit[QUERIES];
  Slice<T> q[QUERIES];

  /// The block's queries. Returns how many tokens they see at most.
  __device__ __forceinline__ unsigned load(const T* from, const AttentionTask& task,
                                           const Places& places, unsigned first) {
    unsigned row = task.row_of(0);
    unsigned head = task.first_query % task.group;
    unsigned longest = 0;
    SLUICE_UNROLL
    for (unsigned j = 0; j < QUERIES; ++j) {
      // Behind the last query comes the last again, which sees nothing then.
      limit[j] = j < task.count ? places.visible[row] : 0;
      longest = longest < limit[j] ? limit[j] : longest;
      const std::size_t query = std::size_t{row} * task.heads + task.kv_head * task.group + head;
      q[j].load(from + query * task.dims + first, count, store.whole);
      if (j + 1 < task.count) {
        row += head + 1 == task.group ? 1 : 0;
        head = head + 1 == task.group ? 0 : head + 1;
      }
    }
    SLUICE_UNROLL
    for (unsigned j = 0; j < QUERIES; ++j) q[j].clear_behind(count);
    return longest;
  }
  template <unsigned AHEAD>
  __device__ __forceinline__ void score(const Slice<T> (&keys)[AHEAD],
                                        const unsigned (&tokens)[AHEAD],
                                        float (&scores)[QUERIES][AHEAD]) const {
    SLUICE_UNROLL
    for (unsigned j = 0; j < QUERIES; ++j) {
      SLUICE_UNROLL
      for (unsigned t = 0; t < AHEAD; ++t) {
        float product = 0;
        SLUICE_UNROLL
        for (unsigned i = 0; i < values_each; ++i) product += q[j][i] * keys[t][i];
        scores[j][t] = product;
      }
      SLUICE_UNROLL
      for (unsigned mask = LANES / 2; mask > 0; mask /= 2) {
        SLUICE_UNROLL
        for (unsigned t = 0; t < AHEAD; ++t)
          scores[j][t] += __shfl_xor_sync(0xffffffffU, scores[j][t], mask);
      }
      SLUICE_UNROLL
      for (unsigned t = 0; t < AHEAD; ++t)
        scores[j][t] = tokens[t] < limit[j] ? scores[j][t] * scale : -INFINITY;
    }
  }
  /// The tokens of this group of lanes among the next AHEAD * `groups`, all read before any is
  /// used. Behind the end it is the last token again, which no query sees. Requires: from < end.
  template <unsigned AHEAD>
  __device__ __forceinline__ void take(Found<QUERIES>& found, unsigned from, unsigned end) const {
    const T* at[AHEAD];
    unsigned tokens[AHEAD];
    SLUICE_UNROLL
    for (unsigned t = 0; t < AHEAD; ++t) {
      const unsigned token = from + t * groups + threadIdx.x / LANES;
      tokens[t] = token < end ? token : 0xffffffffU;
      at[t] = store.find(sequence_pages, token < end ? token : end - 1) + column;
    }
    Slice<T> keys[AHEAD], values[AHEAD];
    SLUICE_UNROLL
    for (unsigned t = 0; t < AHEAD; ++t) {
      keys[t].load(at[t], count, store.whole);
      values[t].load(at[t] + store.values, count, store.whole);
    }
    float scores[QUERIES][AHEAD];
    score(keys, tokens, scores);
    SLUICE_UNROLL
    for (unsigned j = 0; j < QUERIES; ++j) {
      float next = found.most[j];
      SLUICE_UNROLL
      for (unsigned t = 0; t < AHEAD; ++t) next = fmaxf(next, scores[j][t]);
      const float kept = __expf(found.most[j] - base_of(next));
      found.most[j] = next;
      found.sum[j] *= kept;
      SLUICE_UNROLL
      for (unsigned i = 0; i < values_each; ++i) found.mixed[j][i] *= kept;
      SLUICE_UNROLL
      for (unsigned t = 0; t < AHEAD; ++t) {
        const float weight = __expf(scores[j][t] - base_of(next));
        found.sum[j] += weight;
        SLUICE_UNROLL
        for (unsigned i = 0; i < values_each; ++i) found.mixed[j][i] += weight * values[t][i];
      }
    }
  }
};

/// Four columns of a query's result.
struct Columns {
  float most = -INFINITY, sum = 0;
  Piece<float> mixed{};

  template <unsigned QUERIES, unsigned LANES>
  __device__ __forceinline__ void join(const Shared<QUERIES, LANES>& s, unsigned j, unsigned from) {
    SLUICE_UNROLL
    for (unsigned w = 0; w < warps; ++w) most = fmaxf(most, s.most[w][j]);
    SLUICE_UNROLL
    for (unsigned w = 0; w < warps; ++w) {
      const float share = __expf(s.most[w][j] - base_of(most));
      sum += share * s.sum[w][j];
      const Piece<float> more = load_piece(&s.mixed[w][j][from]);
      SLUICE_UNROLL
      for (unsigned c = 0; c < Piece<float>::count; ++c) mixed.values[c] += share * more.values[c];
    }
  }
};

/// The warps' findings, joined, to `out` if the sequence is in one part, else to `parts`.
template <typename T, unsigned QUERIES, unsigned LANES>
__device__ __forceinline__ void write(Shared<QUERIES, LANES>& s, const Found<QUERIES>& found,
                                      const AttentionTask& task, const Parts& parts, T* out) {
  constexpr unsigned each = Piece<float>::count;
  constexpr unsigned pieces = LANES * values_each / each;
  const unsigned warp = threadIdx.x / warp_size;
  if (threadIdx.x % warp_size < LANES) {
    SLUICE_UNROLL
    for (unsigned j = 0; j < QUERIES; ++j) {
      s.most[warp][j] = found.most[j];
      s.sum[warp][j] = found.sum[j];
      SLUICE_UNROLL
      for (unsigned i = 0; i < values_each; ++i)
        s.mixed[warp][j][threadIdx.x % LANES * values_each + i] = found.mixed[j][i];
    }
  }
  __syncthreads();
  for (unsigned e = threadIdx.x; e < task.count * pieces; e += threads) {
    const unsigned j = e / pieces;
    const unsigned from = e % pieces * each;
    if (from >= task.dims) continue;
    Columns columns;
    columns.join(s, j, from);
    const std::size_t query = task.query_of(j);
    const float share = columns.sum > 0 ? 1 / columns.sum : 0.0F;
    if (gridDim.z > 1 && from == 0) parts.write_found(query, columns.most, columns.sum);
    SLUICE_UNROLL
    for (unsigned c = 0; c < each; ++c) {
      if (from + c >= task.dims) break;
      if (gridDim.z == 1)
        store(out + query * task.dims + from + c, columns.mixed.values[c] * share);
      else
        parts.mix_of(query, task.dims)[from + c] = columns.mixed.values[c];
    }
  }
}

/// Grid: query tiles of the longest run x runs, key heads, parts.
template <typename T, unsigned QUERIES, unsigned LANES>
__global__ void few_kernel(kernels::HeadShape shape, const T* q, const RowRun* runs, unsigned tiles,
                           TokenStore<T> store, Places places, float scale, Parts parts, T* out) {
  wait_for_inputs();
  using Lane = Walk<T, QUERIES, LANES>;
  using Block = Shared<QUERIES, LANES>;
  constexpr unsigned ahead = tokens_ahead<T, QUERIES>;
  SLUICE_SHARED(Block, s);
  const AttentionTask task = find_task(shape, runs, tiles, QUERIES);
  if (task.count == 0) return;  // the whole block
  const unsigned column = threadIdx.x % LANES * values_each;
  const unsigned behind = column < task.dims ? task.dims - column : 0;
  const unsigned first = behind != 0 ? column : 0;
  Lane walk{store,
            places.pages + places.sequence[task.run.first] * places.pages_max,
            std::size_t{task.kv_head} * task.dims + first,
            behind < values_each ? behind : values_each,
            scale,
            {},
            {}};
  const unsigned longest = walk.load(q, task, places, first);
  const TokenRange part = find_part(longest, Lane::groups);
  if (part.begin >= part.end && gridDim.z > 1) {
    if (threadIdx.x < task.count) parts.write_found(task.query_of(threadIdx.x), -INFINITY, 0);
    return;
  }
  Found<QUERIES> found;
  found.clear();
  unsigned from = part.begin;
  for (; from + Lane::groups < part.end; from += ahead * Lane::groups)
    walk.template take<ahead>(found, from, part.end);
  if (from < part.end) walk.template take<1>(found, from, part.end);
  SLUICE_UNROLL
  for (unsigned mask = LANES; mask < warp_size; mask *= 2) found.join(mask);
  write(*s, found, task, parts, out);
}

/// What `join_kernel` shares: of each part its weight, and of each warp its parts' mix.
struct Joining {
  float shares[attention_splits_max];
  float mixed[join_warps][dims_max];
};

/// Each part's weight in the result. Two parts per lane of a warp.
__device__ __forceinline__ void find_shares(Joining& s, const float* found, unsigned splits) {
  static_assert(attention_splits_max == 2 * warp_size);
  const unsigned lane = threadIdx.x % warp_size;
  float most[2], sum[2];
  SLUICE_UNROLL
  for (unsigned h = 0; h < 2; ++h) {
    const unsigned p = h * warp_size + lane;
    most[h] = p < splits ? found[p * 2] : -INFINITY;
    sum[h] = p < splits ? found[p * 2 + 1] : 0.0F;
  }
  const float top = base_of(warp_max(fmaxf(most[0], most[1])));
  const float weight[2] = {__expf(most[0] - top), __expf(most[1] - top)};
  const float total = warp_sum(weight[0] * sum[0] + weight[1] * sum[1]);
  SLUICE_UNROLL
  for (unsigned h = 0; h < 2; ++h)
    s.shares[h * warp_size + lane] = total > 0 ? weight[h] / total : 0.0F;
}

/// A block per row and head: joins the parts. A warp takes every eighth part, a lane four columns.
template <typename T>
__global__ void join_kernel(Parts parts, unsigned splits, unsigned dims, T* out) {
  wait_for_inputs();
  constexpr unsigned columns = Piece<float>::count;
  constexpr unsigned parts_each = attention_splits_max / join_warps;
  SLUICE_SHARED(Joining, s);
  const std::size_t query = blockIdx.x;
  const unsigned warp = threadIdx.x / warp_size;
  if (warp == 0) find_shares(*s, parts.found + query * splits * 2, splits);
  __syncthreads();
  for (unsigned at = threadIdx.x % warp_size * columns; at < dims; at += warp_size * columns) {
    Piece<float> mixes[parts_each];
    SLUICE_UNROLL
    for (unsigned k = 0; k < parts_each; ++k) {
      const unsigned p = k * join_warps + warp;
      const float* mix = parts.mixes + (query * splits + p) * dims + at;
      const bool there = s->shares[p] != 0;  // an empty part's mix was never written
      if (dims % columns == 0) {
        mixes[k] = there ? load_piece(mix) : Piece<float>{};
        continue;
      }
      SLUICE_UNROLL
      for (unsigned c = 0; c < columns; ++c)
        mixes[k].values[c] = there && at + c < dims ? mix[c] : 0.0F;
    }
    float mixed[columns] = {};
    SLUICE_UNROLL
    for (unsigned k = 0; k < parts_each; ++k) {
      SLUICE_UNROLL
      for (unsigned c = 0; c < columns; ++c)
        mixed[c] += s->shares[k * join_warps + warp] * mixes[k].values[c];
    }
    SLUICE_UNROLL
    for (unsigned c = 0; c < columns; ++c) s->mixed[warp][at + c] = mixed[c];
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < dims; i += join_threads) {
    float value = 0;
    SLUICE_UNROLL
    for (unsigned w = 0; w < join_warps; ++w) value += s->mixed[w][i];
    store(out + query * dims + i, value);
  }
}

std::size_t queries_of(const kernels::HeadShape& shape, std::size_t run_rows_max) {
  return run_rows_max * (shape.heads / shape.kv_heads);
}

/// What a launch of few rows needs.
template <typename T>
struct Few {
  kernels::HeadShape shape;
  const T* q;
  const RowRun* runs;
  std::size_t run_count, queries;  // queries: of a key head in the longest run
  TokenStore<T> store;
  Places places;
  std::size_t splits;
  Parts parts;
  T* out;
  Stream stream;

  template <unsigned QUERIES, unsigned LANES>
  void launch() const {
    const Few f = *this;  // a launch may be kept for later
    const auto kernel = few_kernel<T, QUERIES, LANES>;
    const unsigned tiles = blocks_for(queries, QUERIES);
    const float scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    const Dim grid{static_cast<unsigned>(run_count * tiles), static_cast<unsigned>(shape.kv_heads),
                   static_cast<unsigned>(splits)};
    const std::size_t shared = sizeof(Shared<QUERIES, LANES>);
    SLUICE_LAUNCH(kernel, grid, threads, shared, f.stream, f.shape, f.q, f.runs, tiles, f.store,
                  f.places, scale, f.parts, f.out);
  }
  template <unsigned QUERIES>
  void launch() const {
    if (shape.head_dim <= 64) return launch<QUERIES, 8>();
    if (shape.head_dim <= 128) return launch<QUERIES, 16>();
    launch<QUERIES, 32>();
  }
  void launch() const {
    if (queries <= 1) return launch<1>();
    if (queries <= 2) return launch<2>();
    if (queries <= 4) return launch<4>();
    launch<8>();
  }
};

}  // namespace

template <typename T>
std::size_t attention_splits(const kernels::HeadShape& shape, std::size_t rows,
                             std::size_t run_count, std::size_t run_rows_max) {
  if (rows == 0) return 1;
  // Enough for the SMs of a large GPU; half of them where blocks are of tiles, which write more.
  constexpr std::size_t blocks_few = 256, blocks_tiled = 128;
  const std::size_t queries = queries_of(shape, run_rows_max);
  const bool tiled = std::is_same_v<T, Bf16> && queries >= queries_for_tiles;
  // Of the rows there are: runs may be much shorter than the longest.
  const std::size_t tiles = std::min<std::size_t>(
      run_count * blocks_for(queries, tiled ? tile_queries : queries_max),
      run_count + blocks_for(queries_of(shape, rows), tiled ? tile_queries : queries_max));
  const std::size_t blocks = tiles * shape.kv_heads;
  return std::clamp<std::size_t>((tiled ? blocks_tiled : blocks_few) / blocks, 1,
                                 attention_splits_max);
}

std::size_t attention_scratch(const kernels::HeadShape& shape, std::size_t rows,
                              std::size_t splits) {
  return splits == 1 ? 0 : rows * shape.heads * splits * (shape.head_dim + 2);
}

template <typename T>
void attention(const kernels::HeadShape& shape, const T* q, std::size_t rows, const RowRun* runs,
               std::size_t run_count, std::size_t run_rows_max, const Pages<T>& pages,
               std::size_t layer, const Places& places, std::size_t splits, float* scratch, T* out,
               Stream stream) {
  if (rows == 0) return;
  const std::size_t queries = queries_of(shape, run_rows_max);
  const Parts parts =
      splits == 1 ? Parts{} : Parts::in(scratch, rows * shape.heads, splits, shape.head_dim);
  const Few<T> few{
      shape,  q,      runs,  run_count, queries, TokenStore<T>(pages, layer, shape.head_dim, q),
      places, splits, parts, out,       stream};
  if constexpr (std::is_same_v<T, Bf16>) {
    if (queries >= queries_for_tiles)
      attention_in_tiles(shape, q, runs, run_count, run_rows_max, pages, layer, places, splits,
                         parts, out, stream);
    else
      few.launch();
  } else {
    few.launch();
  }
  if (splits == 1) return;
  SLUICE_LAUNCH(join_kernel<T>, Dim{static_cast<unsigned>(rows * shape.heads)}, join_threads,
                sizeof(Joining), stream, parts, static_cast<unsigned>(splits),
                static_cast<unsigned>(shape.head_dim), out);
}

#define SLUICE_INSTANCES(T)                                                                     \
  template std::size_t attention_splits<T>(const kernels::HeadShape&, std::size_t, std::size_t, \
                                           std::size_t);                                        \
  template void attention<T>(const kernels::HeadShape&, const T*, std::size_t, const RowRun*,   \
                             std::size_t, std::size_t, const Pages<T>&, std::size_t,            \
                             const Places&, std::size_t, float*, T*, Stream);
SLUICE_INSTANCES(float)
SLUICE_INSTANCES(Bf16)

}  // namespace sluice::device
