// What a block of an attention kernel works on, and where keys and values stand. For *.cu only.
#pragma once

#include "kernels/cuda/grid.h"
#include "kernels/cuda/kernels.h"

namespace sluice::device {

/// Some queries of one key head of one run. The queries of a run are its rows times the heads that
/// share a key head.
struct AttentionTask {
  RowRun run;
  unsigned group, dims, first_query, count, kv_head;

  __device__ std::size_t row_of(unsigned j) const { return run.first + (first_query + j) / group; }
  __device__ std::size_t head_of(unsigned j) const {
    return kv_head * group + (first_query + j) % group;
  }
};

/// Of a grid of query tiles of the longest run x runs, key heads; a tile holds `most` queries.
/// Count 0: of a shorter run, nothing to do.
__device__ __forceinline__ AttentionTask find_task(const kernels::HeadShape& shape,
                                                   const RowRun* runs, unsigned tiles,
                                                   unsigned most) {
  AttentionTask task{runs[blockIdx.x / tiles],
                     static_cast<unsigned>(shape.heads / shape.kv_heads),
                     static_cast<unsigned>(shape.head_dim),
                     blockIdx.x % tiles * most,
                     0,
                     blockIdx.y};
  const unsigned queries = task.run.count * task.group;
  if (task.first_query < queries)
    task.count = queries - task.first_query < most ? queries - task.first_query : most;
  return task;
}

/// Where a token's keys (or values) of this layer and head stand.
template <typename T>
__device__ __forceinline__ const T* find_token(const Pages<T>& pages, std::size_t layer,
                                               bool values, const std::uint32_t* sequence_pages,
                                               unsigned place, const AttentionTask& task) {
  const std::size_t page = sequence_pages[place / pages.page_tokens];
  const std::size_t half =
      ((page * pages.layers + layer) * 2 + (values ? 1 : 0)) * pages.page_tokens;
  return pages.data + (half + place % pages.page_tokens) * pages.row +
         std::size_t{task.kv_head} * task.dims;
}

/// Paged attention of many rows in bf16 on tensor cores: scores are computed twice, first for each
/// row's largest and sum, then for what it mixes, so that nothing is ever scaled again.
/// Requires: head_dim at most 256.
void attention_in_tiles(const kernels::HeadShape& shape, const Bf16* q, const RowRun* runs,
                        std::size_t run_count, std::size_t run_rows_max, const Pages<Bf16>& pages,
                        std::size_t layer, const Places& places, Bf16* out, Stream stream);

}  // namespace sluice::device
