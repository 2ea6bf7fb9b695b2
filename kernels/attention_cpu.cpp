#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention.h"

namespace sluice::kernels {

namespace {

constexpr std::size_t lanes = 16;

float dot(const float* a, const float* b, std::size_t count) {
  float sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) sums[j] += a[i + j] * b[i + j];
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const float part : sums) sum += part;
  return sum;
}

}  // namespace

void attention_cpu(const AttentionShape& shape, std::span<const float> q,
                   std::span<const std::uint32_t> sequence_of_row,
                   std::span<const std::uint32_t> limit_of_row,
                   std::span<const PagedSequence> sequences, std::span<float> out) {
  const std::size_t d = shape.head_dim;
  const std::size_t row_width = shape.kv_heads * d;
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  std::vector<float> weight;
  for (std::size_t row = 0; row < sequence_of_row.size(); ++row) {
    const PagedSequence& sequence = sequences[sequence_of_row[row]];
    const std::size_t limit = limit_of_row[row];
    weight.resize(limit);
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const std::size_t kv_offset = head / (shape.heads / shape.kv_heads) * d;
      const float* query = q.data() + (row * shape.heads + head) * d;
      float* mixed = out.data() + (row * shape.heads + head) * d;
      float most = -INFINITY;
      for (std::size_t t = 0; t < limit; ++t) {
        const float* key =
            sequence.keys[t / shape.page_tokens] + (t % shape.page_tokens) * row_width + kv_offset;
        weight[t] = dot(query, key, d) * scale;
        most = std::max(most, weight[t]);
      }
      float sum = 0;
      std::fill_n(mixed, d, 0.0F);
      for (std::size_t t = 0; t < limit; ++t) {
        const float w = std::exp(weight[t] - most);
        sum += w;
        const float* value = sequence.values[t / shape.page_tokens] +
                             (t % shape.page_tokens) * row_width + kv_offset;
        for (std::size_t i = 0; i < d; ++i) mixed[i] += w * value[i];
      }
      const float inverse = 1.0F / sum;
      for (std::size_t i = 0; i < d; ++i) mixed[i] *= inverse;
    }
  }
}

}  // namespace sluice::kernels
