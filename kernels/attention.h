// Attention of any mix of rows over keys and values that live in pages.
//
// Shape: q and out [rows, heads, head_dim] in f32; a page holds `page_tokens` rows of
// [kv_heads, head_dim] for keys and as many for values, in f32 or in bf16 (the upper half of an
// f32, as std::uint16_t), which is widened as it is read. Query head h reads key head
// h / (heads / kv_heads). Row r sees the first `limit[r]` tokens of its sequence: position + 1 for
// a causal row, the block's end for a row of a bidirectional block.
// Source: Kwon et al. 2023 (paged attention); omni-flow, section 5.3 (denoising on the same path).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::kernels {

struct AttentionShape {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
  std::size_t page_tokens = 0;
  bool narrow = false;  // products of many rows may be in bf16; scores and sums stay f32
  // From a row of q, and from a token's keys or values, to the next; 0: they lie side by side.
  std::size_t q_stride = 0, kv_stride = 0;

  std::size_t q_row() const { return q_stride != 0 ? q_stride : heads * head_dim; }
  std::size_t kv_row() const { return kv_stride != 0 ? kv_stride : kv_heads * head_dim; }
};

/// The pages of one sequence: where each page's keys and values begin, `offset` values further on
/// those of the layer. Value: float, or std::uint16_t for bf16.
template <typename Value>
struct PagesOf {
  std::span<const Value* const> keys;
  std::span<const Value* const> values;
  std::size_t offset = 0;
};
using PagedSequence = PagesOf<float>;
using NarrowSequence = PagesOf<std::uint16_t>;

void attention_ref(const AttentionShape& shape, std::span<const float> q,
                   std::span<const std::uint32_t> sequence_of_row,
                   std::span<const std::uint32_t> limit_of_row,
                   std::span<const PagedSequence> sequences, std::span<float> out);
void attention_ref(const AttentionShape& shape, std::span<const float> q,
                   std::span<const std::uint32_t> sequence_of_row,
                   std::span<const std::uint32_t> limit_of_row,
                   std::span<const NarrowSequence> sequences, std::span<float> out);
void attention_cpu(const AttentionShape& shape, std::span<const float> q,
                   std::span<const std::uint32_t> sequence_of_row,
                   std::span<const std::uint32_t> limit_of_row,
                   std::span<const PagedSequence> sequences, std::span<float> out);
void attention_cpu(const AttentionShape& shape, std::span<const float> q,
                   std::span<const std::uint32_t> sequence_of_row,
                   std::span<const std::uint32_t> limit_of_row,
                   std::span<const NarrowSequence> sequences, std::span<float> out);

}  // namespace sluice::kernels
