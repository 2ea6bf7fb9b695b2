// What a block of an attention kernel works on, where keys and values stand, and where its results
// go. For *.cu only.
#pragma once

#include <cmath>

#include "kernels/cuda/grid.h"
#include "kernels/cuda/kernels.h"

namespace sluice::device {

/// Some queries of one key head of one run. The queries of a run are its rows times the heads that
/// share a key head.
struct AttentionTask {
  RowRun run;
  unsigned group, heads, dims, first_query, count, kv_head;

  __device__ unsigned row_of(unsigned j) const { return run.first + (first_query + j) / group; }
  /// Where the query stands among those of all rows.
  __device__ std::size_t query_of(unsigned j) const {
    return std::size_t{row_of(j)} * heads + kv_head * group + (first_query + j) % group;
  }
};

/// Of a grid of query tiles of the longest run x runs, key heads; a tile holds `most` queries.
/// Count 0: of a shorter run, nothing to do.
__device__ __forceinline__ AttentionTask find_task(const kernels::HeadShape& shape,
                                                   const RowRun* runs, unsigned tiles,
                                                   unsigned most) {
  AttentionTask task{runs[blockIdx.x / tiles],
                     static_cast<unsigned>(shape.heads / shape.kv_heads),
                     static_cast<unsigned>(shape.heads),
                     static_cast<unsigned>(shape.head_dim),
                     blockIdx.x % tiles * most,
                     0,
                     blockIdx.y};
  const unsigned queries = task.run.count * task.group;
  if (task.first_query < queries)
    task.count = queries - task.first_query < most ? queries - task.first_query : most;
  return task;
}

/// Where there are few rows, a lane has so many values of a head that follow each other.
inline constexpr unsigned values_each = 8;

/// Tokens [begin, end) of a sequence.
struct TokenRange {
  unsigned begin, end;
};
/// The block's part (`blockIdx.z`) of a sequence's first `count` tokens: whole pieces of `piece`
/// tokens but for the last one's end. The last parts of a short sequence are empty.
__device__ __forceinline__ TokenRange find_part(unsigned count, unsigned piece) {
  const unsigned pieces = (count + piece - 1) / piece;
  const unsigned each = (pieces + gridDim.z - 1) / gridDim.z * piece;
  const unsigned begin = blockIdx.z * each;
  return {begin < count ? begin : count, begin + each < count ? begin + each : count};
}

/// Where keys and values of one layer stand, by pages.
/// Bounds: places below 2^24, pages of at most 2^16 tokens.
template <typename T>
struct TokenStore {
  const T* data;                  // keys of the first page
  std::size_t page, values, row;  // from one to the next: pages, a page's keys and values, tokens
  std::uint64_t reciprocal;       // of page_tokens, times 2^40, rounded up: instead of divisions
  unsigned page_tokens;
  bool whole;  // each head of each token and of q begins on 16 bytes, and is pieces of them

  TokenStore(const Pages<T>& pages, std::size_t layer, std::size_t head_dim, const T* q)
      : data(pages.data + layer * 2 * pages.page_tokens * pages.row),
        page(pages.layers * 2 * pages.page_tokens * pages.row),
        values(pages.page_tokens * pages.row),
        row(pages.row),
        reciprocal((std::uint64_t{1} << 40) / pages.page_tokens + 1),
        page_tokens(static_cast<unsigned>(pages.page_tokens)),
        whole((reinterpret_cast<std::uintptr_t>(pages.data) | reinterpret_cast<std::uintptr_t>(q)) %
                      sizeof(Piece<T>) ==
                  0 &&
              pages.row % Piece<T>::count == 0 && head_dim % values_each == 0) {}

  /// The key of a token of the sequence with these pages, first key head; the value is `values`
  /// further on.
  __device__ const T* find(const std::uint32_t* sequence_pages, unsigned place) const {
    const auto number = static_cast<unsigned>(place * reciprocal >> 40);
    return data + sequence_pages[number] * page + (place - number * page_tokens) * row;
  }
};

/// What the parts of a sequence give each query, in the scratch memory of `attention`: a mix of
/// values (weights are relative to the part's largest score), that score, and the sum of weights.
/// An empty part has the score -infinity and no mix.
struct Parts {
  float* mixes = nullptr;  // [query, part, head_dim]
  float* found = nullptr;  // [query, part, 2]: largest score, sum

  static Parts in(float* scratch, std::size_t queries, std::size_t splits, std::size_t head_dim) {
    return {scratch, scratch + queries * splits * head_dim};
  }
  /// Of the block's part.
  __device__ float* mix_of(std::size_t query, unsigned dims) const {
    return mixes + (query * gridDim.z + blockIdx.z) * dims;
  }
  __device__ void write_found(std::size_t query, float most, float sum) const {
    float* to = found + (query * gridDim.z + blockIdx.z) * 2;
    to[0] = most;
    to[1] = sum;
  }
};

/// What weights are relative to: the largest score, or anything finite where no token is seen.
__device__ __forceinline__ float base_of(float most) { return most == -INFINITY ? 0.0F : most; }

/// Queries of a key head in a run from which tensor cores are worth it: more than a block of few
/// rows has.
inline constexpr unsigned queries_for_tiles = 9;
/// Queries of a block of `attention_in_tiles`.
inline constexpr unsigned tile_queries = 64;

/// Paged attention of many rows in bf16 on tensor cores, in one pass: a larger score scales what
/// was found before. With one part the result goes to `out`, else to `parts`.
/// Requires: head_dim at most 256. Source: Dao 2023 (FlashAttention-2).
void attention_in_tiles(const kernels::HeadShape& shape, const Bf16* q, const RowRun* runs,
                        std::size_t run_count, std::size_t run_rows_max, const Pages<Bf16>& pages,
                        std::size_t layer, const Places& places, std::size_t splits,
                        const Parts& parts, Bf16* out, Stream stream);

}  // namespace sluice::device
