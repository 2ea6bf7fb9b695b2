#include "kernels/cuda/attention_task.h"
#include "kernels/cuda/tiles.h"

namespace sluice::device {

namespace {

constexpr unsigned warps = tile_queries / tile_side;
constexpr unsigned threads = warps * warp_size;
/// Behind each row, so that rows begin in different banks.
constexpr unsigned gap = 8;

/// D: the head's width, rounded up; what is behind the head is zero.
template <unsigned D>
constexpr unsigned block_keys = D > 128 ? 32 : 64;

template <unsigned D>
struct alignas(16) Shared {
  Bf16 q[tile_queries][D + gap];
  // By turns: one is read while the other is filled.
  Bf16 keys[2][block_keys<D>][D + gap];
  Bf16 values[2][block_keys<D>][D + gap];
};
/// What a block may have at most where it is least (compute capability 8.6, 8.9 and 12.0).
static_assert(sizeof(Shared<256>) <= 99 << 10 && sizeof(Shared<128>) <= 99 << 10);

/// Threads that load a row together.
constexpr unsigned row_threads = 8;
constexpr unsigned rows_at_once = threads / row_threads;

/// The calling thread's share of a row; zeros if it is not `there`. `whole`: the row begins on 16
/// bytes, and its width is a multiple of them; then it is copied ahead.
template <unsigned D>
__device__ __forceinline__ void load_row(Bf16 (&to)[D + gap], const Bf16* from, bool there,
                                         unsigned dims, bool whole) {
  constexpr unsigned piece = Piece<Bf16>::count;
  const unsigned first = threadIdx.x % row_threads;
  if (whole) {
    SLUICE_UNROLL
    for (unsigned i = first * piece; i < D; i += row_threads * piece)
      copy_ahead(&to[i], from + (i < dims ? i : 0), there && i < dims);
    return;
  }
  for (unsigned i = first; i < D; i += row_threads) to[i] = there && i < dims ? from[i] : Bf16{};
}

/// The block's part of its sequence.
struct Sequence {
  const TokenStore<Bf16>& stored;
  const std::uint32_t* pages;
  const AttentionTask& task;
  TokenRange part;
};

/// Keys and values of the tokens from `from` on, zeros behind the part. Requires: from < end.
template <unsigned D>
__device__ __forceinline__ void load_tokens(Shared<D>& s, unsigned turn, const Sequence& sequence,
                                            unsigned from) {
  constexpr unsigned steps = block_keys<D> / rows_at_once;
  const TokenStore<Bf16>& stored = sequence.stored;
  const unsigned end = sequence.part.end;
  const Bf16* keys[steps];
  SLUICE_UNROLL
  for (unsigned step = 0; step < steps; ++step) {
    const unsigned token = from + step * rows_at_once + threadIdx.x / row_threads;
    keys[step] = stored.find(sequence.pages, token < end ? token : end - 1) +
                 std::size_t{sequence.task.kv_head} * sequence.task.dims;
  }
  SLUICE_UNROLL
  for (unsigned step = 0; step < steps; ++step) {
    const unsigned t = step * rows_at_once + threadIdx.x / row_threads;
    const bool there = from + t < end;
    const unsigned dims = sequence.task.dims;
    load_row<D>(s.keys[turn][t], keys[step], there, dims, stored.whole);
    load_row<D>(s.values[turn][t], keys[step] + stored.values, there, dims, stored.whole);
  }
}

/// The block's queries, zeros behind the last.
template <unsigned D>
__device__ __forceinline__ void load_queries(Shared<D>& s, const Bf16* q, const AttentionTask& task,
                                             bool whole) {
  SLUICE_UNROLL
  for (unsigned step = 0; step < tile_queries / rows_at_once; ++step) {
    const unsigned j = step * rows_at_once + threadIdx.x / row_threads;
    const bool there = j < task.count;
    load_row<D>(s.q[j], q + task.query_of(there ? j : 0) * task.dims, there, task.dims, whole);
  }
}

template <typename T>
struct alignas(2 * sizeof(T)) Two {
  T values[2];
};
/// Two columns of a row of `dims`, those of them that it has. The row is one of many, from an
/// address that is a multiple of four values.
template <typename T>
__device__ __forceinline__ void store_two(T* row, unsigned column, unsigned dims, float first,
                                          float second) {
  if (dims % 2 == 0 && column < dims) {
    Two<T> two;
    store(&two.values[0], first);
    store(&two.values[1], second);
    *reinterpret_cast<Two<T>*>(row + column) = two;
    return;
  }
  if (column < dims) store(row + column, first);
  if (column + 1 < dims) store(row + column + 1, second);
}

/// What a warp has found for its sixteen queries, of which a lane has two rows.
template <unsigned D>
struct Found {
  static constexpr unsigned keys = block_keys<D>;
  unsigned limit[2] = {0, 0};
  float most[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // of the lane's columns
  TileSum mixed[D / tile_side];

  __device__ __forceinline__ void compute_scores(const Shared<D>& s, unsigned turn,
                                                 TileSum (&scores)[keys / tile_side]) const {
    SLUICE_UNROLL
    for (unsigned n = 0; n < keys / tile_side; ++n) clear(scores[n]);
    SLUICE_UNROLL
    for (unsigned i = 0; i < D; i += tile_side) {
      TileLeft left;
      load_tile(left, &s.q[threadIdx.x / warp_size * tile_side][i], D + gap);
      SLUICE_UNROLL
      for (unsigned n = 0; n < keys / tile_side; ++n) {
        TileRight right;
        load_turned(right, &s.keys[turn][n * tile_side][i], D + gap);
        multiply_add(scores[n], left, right);
      }
    }
  }
  /// Scores of the tokens from `from` on become weights relative to the largest score so far, and
  /// what was found before shrinks to it.
  __device__ __forceinline__ void weigh(TileSum (&scores)[keys / tile_side], unsigned from,
                                        float scale) {
    float top[2] = {most[0], most[1]};
    SLUICE_UNROLL
    for (unsigned n = 0; n < keys / tile_side; ++n) {
      SLUICE_UNROLL
      for (unsigned i = 0; i < 8; ++i) {
        float& score = scores[n].values[i];
        const unsigned r = sum_row(i);
        score = from + n * tile_side + sum_column(i) < limit[r] ? score * scale : -INFINITY;
        top[r] = fmaxf(top[r], score);
      }
    }
    float kept[2];
    SLUICE_UNROLL
    for (unsigned r = 0; r < 2; ++r) {
      top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffU, top[r], 1));
      top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffU, top[r], 2));
      kept[r] = __expf(most[r] - base_of(top[r]));
      most[r] = top[r];
      sum[r] *= kept[r];
    }
    SLUICE_UNROLL
    for (unsigned n = 0; n < keys / tile_side; ++n) {
      SLUICE_UNROLL
      for (unsigned i = 0; i < 8; ++i) {
        float& score = scores[n].values[i];
        score = __expf(score - base_of(top[sum_row(i)]));
        sum[sum_row(i)] += score;
      }
    }
    SLUICE_UNROLL
    for (unsigned d = 0; d < D / tile_side; ++d) {
      SLUICE_UNROLL
      for (unsigned i = 0; i < 8; ++i) mixed[d].values[i] *= kept[sum_row(i)];
    }
  }
  __device__ __forceinline__ void mix(const Shared<D>& s, unsigned turn,
                                      const TileSum (&weights)[keys / tile_side]) {
    SLUICE_UNROLL
    for (unsigned n = 0; n < keys / tile_side; ++n) {
      TileLeft left;
      take_sum(left, weights[n]);
      SLUICE_UNROLL
      for (unsigned d = 0; d < D / tile_side; ++d) {
        TileRight right;
        load_tile(right, &s.values[turn][n * tile_side][d * tile_side], D + gap);
        multiply_add(mixed[d], left, right);
      }
    }
  }
  /// To `out` if the sequence is in one part, else to `parts`.
  __device__ __forceinline__ void write(const AttentionTask& task, const Parts& parts, Bf16* out) {
    const unsigned lane = threadIdx.x % warp_size;
    SLUICE_UNROLL
    for (unsigned r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], 1);
      sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], 2);
      const unsigned j = threadIdx.x / warp_size * tile_side + lane / 4 + 8 * r;
      if (j >= task.count) continue;
      const std::size_t query = task.query_of(j);
      const float share = sum[r] > 0 ? 1 / sum[r] : 0.0F;
      if (gridDim.z > 1 && lane % 4 == 0) parts.write_found(query, most[r], sum[r]);
      SLUICE_UNROLL
      for (unsigned d = 0; d < D / tile_side; ++d) {
        SLUICE_UNROLL
        for (unsigned i = 2 * r; i < 8; i += 4) {
          const unsigned column = d * tile_side + sum_column(i);
          const float* two = &mixed[d].values[i];
          if (gridDim.z == 1)
            store_two(out + query * task.dims, column, task.dims, two[0] * share, two[1] * share);
          else
            store_two(parts.mix_of(query, task.dims), column, task.dims, two[0], two[1]);
        }
      }
    }
  }
};

/// How many tokens the block's queries see at most. Exact: places are below 2^24.
__device__ __forceinline__ unsigned find_longest(const AttentionTask& task, const Places& places) {
  unsigned longest = 0;
  const unsigned last = task.row_of(task.count - 1);
  for (unsigned row = task.row_of(0) + threadIdx.x % warp_size; row <= last; row += warp_size)
    longest = longest < places.visible[row] ? places.visible[row] : longest;
  return static_cast<unsigned>(warp_max(static_cast<float>(longest)));
}

/// Grid: query tiles of the longest run x runs, key heads, parts. A warp has sixteen queries.
template <unsigned D>
__global__ void tiles_kernel(kernels::HeadShape shape, const Bf16* q, const RowRun* runs,
                             unsigned tiles, TokenStore<Bf16> stored, Places places, float scale,
                             Parts parts, Bf16* out) {
  wait_for_inputs();
  constexpr unsigned keys = block_keys<D>;
  SLUICE_SHARED(Shared<D>, s);
  const AttentionTask task = find_task(shape, runs, tiles, tile_queries);
  if (task.count == 0) return;  // the whole block
  const unsigned warp = threadIdx.x / warp_size;
  const unsigned lane = threadIdx.x % warp_size;
  const Sequence sequence{stored, places.pages + places.sequence[task.run.first] * places.pages_max,
                          task, find_part(find_longest(task, places), keys)};
  const TokenRange& part = sequence.part;
  if (part.begin >= part.end && gridDim.z > 1) {
    if (threadIdx.x < task.count) parts.write_found(task.query_of(threadIdx.x), -INFINITY, 0);
    return;
  }
  load_queries(*s, q, task, stored.whole);
  load_tokens(*s, 0, sequence, part.begin);
  commit_copies();
  Found<D> found;
  SLUICE_UNROLL
  for (unsigned d = 0; d < D / tile_side; ++d) clear(found.mixed[d]);
  SLUICE_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const unsigned j = warp * tile_side + lane / 4 + 8 * r;
    found.limit[r] = j < task.count ? places.visible[task.row_of(j)] : 0;
  }
  unsigned turn = 0;
  for (unsigned from = part.begin; from < part.end; from += keys, turn ^= 1) {
    // The next tokens are copied meanwhile; a group of copies even where there are none.
    if (from + keys < part.end) load_tokens(*s, turn ^ 1, sequence, from + keys);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    if (warp * tile_side < task.count) {
      TileSum scores[keys / tile_side];
      found.compute_scores(*s, turn, scores);
      found.weigh(scores, from, scale);
      found.mix(*s, turn, scores);
    }
    __syncthreads();
  }
  found.write(task, parts, out);
}

template <unsigned D>
void launch(const kernels::HeadShape& shape, const Bf16* q, const RowRun* runs,
            std::size_t run_count, std::size_t run_rows_max, const Pages<Bf16>& pages,
            std::size_t layer, const Places& places, std::size_t splits, const Parts& parts,
            Bf16* out, Stream stream) {
  const unsigned tiles = blocks_for(run_rows_max * (shape.heads / shape.kv_heads), tile_queries);
  const float scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  const TokenStore<Bf16> stored(pages, layer, shape.head_dim, q);
#ifndef SLUICE_EMULATED
  static const bool raised =
      cudaFuncSetAttribute(tiles_kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           sizeof(Shared<D>)) == cudaSuccess;
  (void)raised;  // a refusal shows as a launch that fails
#endif
  const Dim grid{static_cast<unsigned>(run_count * tiles), static_cast<unsigned>(shape.kv_heads),
                 static_cast<unsigned>(splits)};
  SLUICE_LAUNCH(tiles_kernel<D>, grid, threads, sizeof(Shared<D>), stream, shape, q, runs, tiles,
                stored, places, scale, parts, out);
}

}  // namespace

void attention_in_tiles(const kernels::HeadShape& shape, const Bf16* q, const RowRun* runs,
                        std::size_t run_count, std::size_t run_rows_max, const Pages<Bf16>& pages,
                        std::size_t layer, const Places& places, std::size_t splits,
                        const Parts& parts, Bf16* out, Stream stream) {
  const auto run = [&](auto with) {
    with(shape, q, runs, run_count, run_rows_max, pages, layer, places, splits, parts, out, stream);
  };
  if (shape.head_dim <= 64) return run(launch<64>);
  if (shape.head_dim <= 80) return run(launch<80>);
  if (shape.head_dim <= 128) return run(launch<128>);
  run(launch<256>);
}

}  // namespace sluice::device
