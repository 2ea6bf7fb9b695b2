#include "kernels/cuda/attention_task.h"
#include "kernels/cuda/tiles.h"

namespace sluice::device {

namespace {

constexpr unsigned warps = 4;
constexpr unsigned threads = warps * warp_size;
constexpr unsigned block_queries = warps * tile_side;
constexpr unsigned block_keys = 2 * tile_side;
/// Behind each row, so that rows begin in different banks.
constexpr unsigned gap = 8;

/// D: the head's width, rounded up; what is behind the head is zero.
template <unsigned D>
struct alignas(32) Shared {
  Bf16 q[block_queries][D + gap];
  Bf16 keys[block_keys][D + gap];
  Bf16 values[block_keys][D + gap];
  float scores[warps][tile_side][block_keys + gap];
  Bf16 weights[warps][tile_side][block_keys + gap];
};

template <unsigned D>
__device__ __forceinline__ void load_row(Bf16 (&to)[D + gap], const Bf16* from, unsigned dims,
                                         unsigned first, unsigned step) {
  constexpr unsigned piece = Piece<Bf16>::count;
  if (from != nullptr && dims % piece == 0) {
    for (unsigned i = first * piece; i < D; i += step * piece)
      *reinterpret_cast<Piece<Bf16>*>(&to[i]) = i < dims ? load_piece(from + i) : Piece<Bf16>{};
    return;
  }
  for (unsigned i = first; i < D; i += step) to[i] = from != nullptr && i < dims ? from[i] : Bf16{};
}

/// Keys (or values) of the tokens [from, end), zeros behind them. Eight threads take a row.
template <unsigned D>
__device__ __forceinline__ void load_tokens(Bf16 (&to)[block_keys][D + gap],
                                            const Pages<Bf16>& pages, std::size_t layer,
                                            bool values, const std::uint32_t* sequence_pages,
                                            unsigned from, unsigned end,
                                            const AttentionTask& task) {
  constexpr unsigned each = 8;
  for (unsigned t = threadIdx.x / each; t < block_keys; t += threads / each) {
    const Bf16* row =
        from + t < end ? find_token(pages, layer, values, sequence_pages, from + t, task) : nullptr;
    load_row<D>(to[t], row, task.dims, threadIdx.x % each, each);
  }
}

/// The warp's sixteen queries with all keys that are loaded.
template <unsigned D>
__device__ __forceinline__ void compute_scores(Shared<D>& s) {
  const unsigned warp = threadIdx.x / warp_size;
  for (unsigned n = 0; n < block_keys; n += tile_side) {
    TileSum sum;
    clear(sum);
    for (unsigned i = 0; i < D; i += tile_side) {
      TileLeft left;
      TileRightTurned right;
      load_tile(left, &s.q[warp * tile_side][i], D + gap);
      load_turned(right, &s.keys[n][i], D + gap);
      multiply_add(sum, left, right);
    }
    store_tile(&s.scores[warp][0][n], sum, block_keys + gap);
  }
  __syncwarp();
}

/// What a lane knows of its half of a query's scores; two lanes have the same query.
struct Softmax {
  unsigned limit = 0;
  float most = -INFINITY, sum = 0;

  __device__ void take(const float* scores, unsigned from, float scale) {
    float top = most;
    for (unsigned c = 0; c < tile_side; ++c)
      if (from + c < limit) top = fmaxf(top, scores[c] * scale);
    if (top == -INFINITY) return;
    float more = 0;
    for (unsigned c = 0; c < tile_side; ++c)
      if (from + c < limit) more += __expf(scores[c] * scale - top);
    sum = (most == -INFINITY ? 0.0F : sum * __expf(most - top)) + more;
    most = top;
  }
  __device__ void join_other_half() {
    const float other_most = __shfl_xor_sync(0xffffffffU, most, 1);
    const float other_sum = __shfl_xor_sync(0xffffffffU, sum, 1);
    const float top = fmaxf(most, other_most);
    if (top == -INFINITY) return;
    sum = (most == -INFINITY ? 0.0F : sum * __expf(most - top)) +
          (other_most == -INFINITY ? 0.0F : other_sum * __expf(other_most - top));
    most = top;
  }
  __device__ float weight(float score, unsigned token, float scale) const {
    return token < limit ? __expf(score * scale - most) / sum : 0.0F;
  }
};

/// The warp's weights with all values that are loaded.
template <unsigned D>
__device__ __forceinline__ void mix(const Shared<D>& s, TileSum (&mixed)[D / tile_side]) {
  const unsigned warp = threadIdx.x / warp_size;
  for (unsigned k = 0; k < block_keys; k += tile_side) {
    TileLeft left;
    load_tile(left, &s.weights[warp][0][k], block_keys + gap);
    SLUICE_UNROLL
    for (unsigned i = 0; i < D / tile_side; ++i) {
      TileRight right;
      load_tile(right, &s.values[k][i * tile_side], D + gap);
      multiply_add(mixed[i], left, right);
    }
  }
}

/// Sixteen columns at a time through what held the scores.
template <unsigned D>
__device__ __forceinline__ void write_mixed(Shared<D>& s, const TileSum (&mixed)[D / tile_side],
                                            const AttentionTask& task, std::size_t heads,
                                            Bf16* out) {
  const unsigned warp = threadIdx.x / warp_size;
  const unsigned lane = threadIdx.x % warp_size;
  SLUICE_UNROLL
  for (unsigned i = 0; i < D / tile_side; ++i) {
    store_tile(&s.scores[warp][0][0], mixed[i], block_keys + gap);
    __syncwarp();
    for (unsigned e = lane; e < tile_side * tile_side; e += warp_size) {
      const unsigned j = warp * tile_side + e / tile_side;
      const unsigned column = i * tile_side + e % tile_side;
      if (j < task.count && column < task.dims)
        store(out + (task.row_of(j) * heads + task.head_of(j)) * task.dims + column,
              s.scores[warp][e / tile_side][e % tile_side]);
    }
    __syncwarp();
  }
}

/// Grid: query tiles of the longest run x runs, key heads. A warp has sixteen queries, and a lane
/// the half of one query's scores.
template <unsigned D>
__global__ void tiles_kernel(kernels::HeadShape shape, const Bf16* q, const RowRun* runs,
                             unsigned tiles, Pages<Bf16> pages, std::size_t layer, Places places,
                             float scale, Bf16* out) {
  SLUICE_SHARED(Shared<D>, s);
  const AttentionTask task = find_task(shape, runs, tiles, block_queries);
  if (task.count == 0) return;  // the whole block
  const unsigned warp = threadIdx.x / warp_size;
  const unsigned lane = threadIdx.x % warp_size;
  for (unsigned j = warp; j < block_queries; j += warps)
    load_row<D>(
        s->q[j],
        j < task.count ? q + (task.row_of(j) * shape.heads + task.head_of(j)) * task.dims : nullptr,
        task.dims, lane, warp_size);
  Softmax softmax;
  unsigned end = 0;
  for (unsigned j = 0; j < task.count; ++j) {
    const unsigned visible = places.visible[task.row_of(j)];
    end = visible > end ? visible : end;
    if (j == warp * tile_side + lane / 2) softmax.limit = visible;
  }
  const std::uint32_t* sequence_pages =
      places.pages + places.sequence[task.run.first] * places.pages_max;
  const unsigned half = lane % 2 * tile_side;
  float* scores = &s->scores[warp][lane / 2][half];
  for (unsigned from = 0; from < end; from += block_keys) {
    __syncthreads();
    load_tokens<D>(s->keys, pages, layer, false, sequence_pages, from, end, task);
    __syncthreads();
    compute_scores(*s);
    softmax.take(scores, from + half, scale);
  }
  softmax.join_other_half();
  TileSum mixed[D / tile_side];
  SLUICE_UNROLL
  for (unsigned i = 0; i < D / tile_side; ++i) clear(mixed[i]);
  for (unsigned from = 0; from < end; from += block_keys) {
    __syncthreads();
    load_tokens<D>(s->keys, pages, layer, false, sequence_pages, from, end, task);
    load_tokens<D>(s->values, pages, layer, true, sequence_pages, from, end, task);
    __syncthreads();
    compute_scores(*s);
    for (unsigned c = 0; c < tile_side; ++c)
      store(&s->weights[warp][lane / 2][half + c],
            softmax.weight(scores[c], from + half + c, scale));
    __syncwarp();
    mix(*s, mixed);
  }
  __syncwarp();
  write_mixed(*s, mixed, task, shape.heads, out);
}

template <unsigned D>
void launch(const kernels::HeadShape& shape, const Bf16* q, const RowRun* runs,
            std::size_t run_count, std::size_t run_rows_max, const Pages<Bf16>& pages,
            std::size_t layer, const Places& places, Bf16* out, Stream stream) {
  const unsigned tiles = blocks_for(run_rows_max * (shape.heads / shape.kv_heads), block_queries);
  const float scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
#ifndef SLUICE_EMULATED
  static const bool raised =
      cudaFuncSetAttribute(tiles_kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           sizeof(Shared<D>)) == cudaSuccess;
  (void)raised;  // a refusal shows as a launch that fails
#endif
  const Dim grid{static_cast<unsigned>(run_count * tiles), static_cast<unsigned>(shape.kv_heads),
                 1};
  SLUICE_LAUNCH(tiles_kernel<D>, grid, threads, sizeof(Shared<D>), stream, shape, q, runs, tiles,
                pages, layer, places, scale, out);
}

}  // namespace

void attention_in_tiles(const kernels::HeadShape& shape, const Bf16* q, const RowRun* runs,
                        std::size_t run_count, std::size_t run_rows_max, const Pages<Bf16>& pages,
                        std::size_t layer, const Places& places, Bf16* out, Stream stream) {
  const auto run = [&](auto with) {
    with(shape, q, runs, run_count, run_rows_max, pages, layer, places, out, stream);
  };
  if (shape.head_dim <= 64) return run(launch<64>);
  if (shape.head_dim <= 80) return run(launch<80>);
  if (shape.head_dim <= 128) return run(launch<128>);
  run(launch<256>);
}

}  // namespace sluice::device
