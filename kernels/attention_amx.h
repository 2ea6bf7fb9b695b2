// Attention of many rows on the processor's matrix tiles (AMX, bf16). For attention_cpu only.
//
// Keys and values are laid out once as the tiles read them; then 32 rows at a time go through
// scores, exponentials and values without leaving the cache. Beside a general product of each
// kind this spares the scores two ways through memory and the setting up of small products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::kernels {

/// One key head of one sequence, and the rows whose queries read it.
struct AmxTask {
  std::size_t rows = 0;
  std::size_t group = 0;  // query heads; they lie side by side in a row
  std::size_t head_dim = 0;
  const float* q = nullptr;  // the first row's first head of the group
  float* out = nullptr;      // as q
  std::size_t q_stride = 0;  // floats from one row of q to the next
  std::size_t out_stride = 0;
  const std::uint32_t* limit = nullptr;  // of each row: how many tokens it sees, at least one
  std::span<const float* const> keys;    // of each page: where it begins
  std::span<const float* const> values;
  std::size_t head = 0;  // floats from a token's begin to this head
  std::size_t page_tokens = 0;
  std::size_t token_stride = 0;  // floats from one token to the next
};

/// Requires: uses(Isa::amx). Queries, keys, values and weights are rounded to bf16; sums are f32.
void attend_amx(const AmxTask& task);

}  // namespace sluice::kernels
