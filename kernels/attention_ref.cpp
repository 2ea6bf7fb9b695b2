#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention.h"
#include "kernels/vector_math.h"

namespace sluice::kernels {

namespace {

template <typename Value>
void attend(const AttentionShape& shape, std::span<const float> q,
            std::span<const std::uint32_t> sequence_of_row,
            std::span<const std::uint32_t> limit_of_row, std::span<const PagesOf<Value>> sequences,
            std::span<float> out) {
  const std::size_t d = shape.head_dim;
  const std::size_t row_width = shape.kv_row();
  for (std::size_t row = 0; row < sequence_of_row.size(); ++row) {
    const PagesOf<Value>& sequence = sequences[sequence_of_row[row]];
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const std::size_t kv_head = head / (shape.heads / shape.kv_heads);
      const float* query = q.data() + row * shape.q_row() + head * d;
      std::vector<double> weight(limit_of_row[row]);
      if (weight.empty()) {  // a row that sees nothing
        std::ranges::fill(out.subspan((row * shape.heads + head) * d, d), 0.0F);
        continue;
      }
      for (std::size_t t = 0; t < weight.size(); ++t) {
        const Value* key = sequence.keys[t / shape.page_tokens] + sequence.offset +
                           (t % shape.page_tokens) * row_width + kv_head * d;
        for (std::size_t i = 0; i < d; ++i) weight[t] += double{query[i]} * double{widen(key[i])};
        weight[t] /= std::sqrt(static_cast<double>(d));
      }
      const double most = *std::ranges::max_element(weight);
      double sum = 0;
      for (double& w : weight) sum += w = std::exp(w - most);
      for (std::size_t i = 0; i < d; ++i) {
        double mixed = 0;
        for (std::size_t t = 0; t < weight.size(); ++t)
          mixed += weight[t] *
                   double{widen(
                       sequence.values[t / shape.page_tokens][sequence.offset + kv_head * d + i +
                                                              t % shape.page_tokens * row_width])};
        out[(row * shape.heads + head) * d + i] = static_cast<float>(mixed / sum);
      }
    }
  }
}

}  // namespace

void attention_ref(const AttentionShape& shape, std::span<const float> q,
                   std::span<const std::uint32_t> sequence_of_row,
                   std::span<const std::uint32_t> limit_of_row,
                   std::span<const PagedSequence> sequences, std::span<float> out) {
  attend(shape, q, sequence_of_row, limit_of_row, sequences, out);
}

void attention_ref(const AttentionShape& shape, std::span<const float> q,
                   std::span<const std::uint32_t> sequence_of_row,
                   std::span<const std::uint32_t> limit_of_row,
                   std::span<const NarrowSequence> sequences, std::span<float> out) {
  attend(shape, q, sequence_of_row, limit_of_row, sequences, out);
}

}  // namespace sluice::kernels
