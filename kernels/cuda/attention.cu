#include <type_traits>

#include "kernels/cuda/attention_task.h"

namespace sluice::device {

namespace {

/// Queries of one key head that a block serves: each key and value is read once for all of them.
constexpr unsigned tile = 8;
constexpr unsigned warps = 4;
constexpr unsigned threads = warps * warp_size;
constexpr unsigned dims_max = 256;
constexpr unsigned per_lane = dims_max / warp_size;

/// What a part of a sequence gives a query: the largest score, the sum of weights, and the mix.
constexpr std::size_t part_floats(std::size_t head_dim) { return head_dim + 2; }

struct Shared {
  float q[tile][dims_max];
  float weights[warps][tile][warp_size];
  float most[warps][tile], sum[warps][tile];
  float mixed[warps][tile][dims_max];
};

/// The products of one key with all queries of the tile.
template <typename T>
__device__ __forceinline__ void dots(const Shared& s, const T* key, unsigned dims, float* scores) {
  constexpr unsigned piece = Piece<T>::count;
  for (unsigned j = 0; j < tile; ++j) scores[j] = 0;
  if (dims % piece != 0) {
    for (unsigned i = 0; i < dims; ++i)
      for (unsigned j = 0; j < tile; ++j) scores[j] += s.q[j][i] * load(key[i]);
    return;
  }
  for (unsigned i = 0; i < dims; i += piece) {
    const Piece<T> k = load_piece(key + i);
    for (unsigned e = 0; e < piece; ++e)
      for (unsigned j = 0; j < tile; ++j) scores[j] += s.q[j][i + e] * load(k.values[e]);
  }
}

/// What a warp has found so far, for each query; columns of the mix by lane.
struct Found {
  float most[tile], sum[tile], mixed[tile][per_lane];
};

/// Scores of 32 tokens, one per lane, into weights; what was found before shrinks to the new most.
__device__ __forceinline__ void weigh(Shared& s, Found& found, const float* scores,
                                      const unsigned* limit, bool there, unsigned token) {
  const unsigned lane = threadIdx.x % warp_size;
  const unsigned warp = threadIdx.x / warp_size;
  for (unsigned j = 0; j < tile; ++j) {
    const float score = there && token < limit[j] ? scores[j] : -INFINITY;
    const float next = fmaxf(found.most[j], warp_max(score));
    const float weight = score == -INFINITY ? 0.0F : __expf(score - next);
    const float kept = found.most[j] == -INFINITY ? 0.0F : __expf(found.most[j] - next);
    found.most[j] = next;
    found.sum[j] = found.sum[j] * kept + warp_sum(weight);
    for (unsigned i = 0; i < per_lane; ++i) found.mixed[j][i] *= kept;
    s.weights[warp][j][lane] = weight;
  }
  __syncwarp();
}

/// One value row of the tile into the mix.
template <typename T>
__device__ __forceinline__ void mix(const Shared& s, Found& found, const T* value, unsigned t,
                                    unsigned dims) {
  const unsigned lane = threadIdx.x % warp_size;
  const unsigned warp = threadIdx.x / warp_size;
  for (unsigned i = 0; i < per_lane; ++i) {
    const unsigned column = i * warp_size + lane;
    if (column >= dims) break;
    const float v = load(value[column]);
    for (unsigned j = 0; j < tile; ++j) found.mixed[j][i] += s.weights[warp][j][t] * v;
  }
}

/// The warps' findings, joined, to where the splits are joined later.
__device__ __forceinline__ void write_part(Shared& s, const Found& found, const AttentionTask& task,
                                           std::size_t heads, float* scratch) {
  const unsigned lane = threadIdx.x % warp_size;
  const unsigned warp = threadIdx.x / warp_size;
  for (unsigned j = 0; j < tile; ++j) {
    if (lane == 0) {
      s.most[warp][j] = found.most[j];
      s.sum[warp][j] = found.sum[j];
    }
    for (unsigned i = 0; i < per_lane; ++i)
      if (i * warp_size + lane < task.dims)
        s.mixed[warp][j][i * warp_size + lane] = found.mixed[j][i];
  }
  __syncthreads();
  for (unsigned j = 0; j < task.count; ++j) {
    const std::size_t query = task.row_of(j) * heads + task.head_of(j);
    float* part = scratch + (query * gridDim.z + blockIdx.z) * part_floats(task.dims);
    float top = -INFINITY;
    for (unsigned w = 0; w < warps; ++w) top = fmaxf(top, s.most[w][j]);
    float total = 0;
    float share[warps];
    for (unsigned w = 0; w < warps; ++w) {
      share[w] = s.most[w][j] == -INFINITY ? 0.0F : __expf(s.most[w][j] - top);
      total += share[w] * s.sum[w][j];
    }
    if (threadIdx.x == 0) {
      part[0] = top;
      part[1] = total;
    }
    for (unsigned i = threadIdx.x; i < task.dims; i += threads) {
      float value = 0;
      for (unsigned w = 0; w < warps; ++w) value += share[w] * s.mixed[w][j][i];
      part[2 + i] = value;
    }
  }
}

/// Grid: query tiles of the longest run x runs, key heads, splits. A warp takes 32 tokens at a
/// time: a token per lane for the scores, then columns per lane for the mix.
template <typename T>
__global__ void attention_kernel(kernels::HeadShape shape, const T* q, const RowRun* runs,
                                 unsigned tiles, Pages<T> pages, std::size_t layer, Places places,
                                 float scale, float* scratch) {
  SLUICE_SHARED(Shared, s);
  const AttentionTask task = find_task(shape, runs, tiles, tile);
  if (task.count == 0) return;  // the whole block
  for (unsigned i = threadIdx.x; i < tile * task.dims; i += threads) {
    const unsigned j = i / task.dims;
    const T* from = q + (task.row_of(j) * shape.heads + task.head_of(j)) * task.dims;
    s->q[j][i % task.dims] = j < task.count ? load(from[i % task.dims]) * scale : 0.0F;
  }
  unsigned limit[tile];
  unsigned longest = 0;
  Found found;
  for (unsigned j = 0; j < tile; ++j) {
    limit[j] = j < task.count ? places.visible[task.row_of(j)] : 0;
    longest = limit[j] > longest ? limit[j] : longest;
    found.most[j] = -INFINITY;
    found.sum[j] = 0;
    for (unsigned i = 0; i < per_lane; ++i) found.mixed[j][i] = 0;
  }
  const std::uint32_t* sequence_pages =
      places.pages + places.sequence[task.run.first] * places.pages_max;
  const auto begin = static_cast<unsigned>(std::size_t{longest} * blockIdx.z / gridDim.z);
  const auto end = static_cast<unsigned>(std::size_t{longest} * (blockIdx.z + 1) / gridDim.z);
  __syncthreads();
  for (unsigned from = begin + threadIdx.x / warp_size * warp_size; from < end; from += threads) {
    const unsigned token = from + threadIdx.x % warp_size;
    const bool there = token < end;
    float scores[tile];
    dots(*s, find_token(pages, layer, false, sequence_pages, there ? token : end - 1, task),
         task.dims, scores);
    weigh(*s, found, scores, limit, there, token);
    const unsigned here = end - from < warp_size ? end - from : warp_size;
    for (unsigned t = 0; t < here; ++t)
      mix(*s, found, find_token(pages, layer, true, sequence_pages, from + t, task), t, task.dims);
    __syncwarp();
  }
  write_part(*s, found, task, shape.heads, scratch);
}

/// A block per row and head: joins the parts.
template <typename T>
__global__ void join_kernel(const float* scratch, unsigned splits, unsigned dims, T* out) {
  const std::size_t query = blockIdx.x;
  const float* parts = scratch + query * splits * part_floats(dims);
  float top = -INFINITY;
  for (unsigned p = 0; p < splits; ++p) top = fmaxf(top, parts[p * part_floats(dims)]);
  for (unsigned i = threadIdx.x; i < dims; i += blockDim.x) {
    float total = 0;
    float value = 0;
    for (unsigned p = 0; p < splits; ++p) {
      const float* part = parts + p * part_floats(dims);
      const float share = part[0] == -INFINITY ? 0.0F : __expf(part[0] - top);
      total += share * part[1];
      value += share * part[2 + i];
    }
    store(out + query * dims + i, value / total);
  }
}

}  // namespace

std::size_t attention_scratch(const kernels::HeadShape& shape, std::size_t rows,
                              std::size_t splits) {
  return rows * shape.heads * splits * part_floats(shape.head_dim);
}

template <typename T>
void attention(const kernels::HeadShape& shape, const T* q, std::size_t rows, const RowRun* runs,
               std::size_t run_count, std::size_t run_rows_max, const Pages<T>& pages,
               std::size_t layer, const Places& places, std::size_t splits, float* scratch, T* out,
               Stream stream) {
  if (rows == 0) return;
  const std::size_t group = shape.heads / shape.kv_heads;
  if constexpr (std::is_same_v<T, Bf16>)
    if (splits == 1 && run_rows_max * group > tile)
      return attention_in_tiles(shape, q, runs, run_count, run_rows_max, pages, layer, places, out,
                                stream);
  const unsigned tiles = blocks_for(run_rows_max * group, tile);
  const float scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
#ifndef SLUICE_EMULATED
  static const bool raised =
      cudaFuncSetAttribute(attention_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           sizeof(Shared)) == cudaSuccess;
  (void)raised;  // a refusal shows as a launch that fails
#endif
  const Dim grid{static_cast<unsigned>(run_count * tiles), static_cast<unsigned>(shape.kv_heads),
                 static_cast<unsigned>(splits)};
  SLUICE_LAUNCH(attention_kernel<T>, grid, threads, sizeof(Shared), stream, shape, q, runs, tiles,
                pages, layer, places, scale, scratch);
  SLUICE_LAUNCH(join_kernel<T>, Dim{static_cast<unsigned>(rows * shape.heads)}, threads, 0, stream,
                scratch, static_cast<unsigned>(splits), static_cast<unsigned>(shape.head_dim), out);
}

#define SLUICE_INSTANCES(T)                                                                   \
  template void attention<T>(const kernels::HeadShape&, const T*, std::size_t, const RowRun*, \
                             std::size_t, std::size_t, const Pages<T>&, std::size_t,          \
                             const Places&, std::size_t, float*, T*, Stream);
SLUICE_INSTANCES(float)
SLUICE_INSTANCES(Bf16)

}  // namespace sluice::device
