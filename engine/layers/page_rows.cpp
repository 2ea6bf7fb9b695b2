#include "engine/layers/page_rows.h"

#include "kernels/huge_vector.h"
#include "kernels/layout.h"

namespace sluice {

template <typename Value>
void PageRows::lay_out_as(KvPool& pool, std::span<KvSequence* const> sequences,
                          std::span<const std::uint32_t> sequence_of_row,
                          std::span<const std::uint32_t> place_of_row, Tables<Value>& to) {
  to.key_pages.clear();
  to.value_pages.clear();
  for (const KvSequence* sequence : sequences)
    for (const Page page : sequence->pages()) {
      to.key_pages.push_back(pool.keys<Value>(page, 0));
      to.value_pages.push_back(pool.values<Value>(page, 0));
    }
  to.tables.clear();
  std::size_t at = 0;
  for (const KvSequence* sequence : sequences) {
    const std::size_t pages = sequence->pages().size();
    to.tables.push_back(
        {std::span(to.key_pages).subspan(at, pages), std::span(to.value_pages).subspan(at, pages)});
    at += pages;
  }
  const std::size_t page_tokens = pool.shape().page_tokens;
  const std::size_t rows = sequence_of_row.size();
  to.first_k.resize(rows);
  to.first_v.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const Page page = sequences[sequence_of_row[row]]->pages()[place_of_row[row] / page_tokens];
    const std::size_t offset = place_of_row[row] % page_tokens * row_;
    to.first_k[row] = pool.keys<Value>(page, 0) + offset;
    to.first_v[row] = pool.values<Value>(page, 0) + offset;
  }
}

void PageRows::lay_out(KvPool& pool, std::span<KvSequence* const> sequences,
                       std::span<const std::uint32_t> sequence_of_row,
                       std::span<const std::uint32_t> place_of_row) {
  narrow_ = pool.shape().dtype == Dtype::bf16;
  row_ = pool.shape().row;
  layer_stride_ = pool.layer_stride();
  if (!narrow_) return lay_out_as(pool, sequences, sequence_of_row, place_of_row, wide_);
  lay_out_as(pool, sequences, sequence_of_row, place_of_row, in_bf16_);
  grow(new_keys_, sequence_of_row.size() * row_);
  grow(new_values_, sequence_of_row.size() * row_);
}

void PageRows::enter(std::size_t layer, std::vector<float*>& k, std::vector<float*>& v) {
  const std::size_t offset = layer * layer_stride_;
  const std::size_t rows = narrow_ ? in_bf16_.first_k.size() : wide_.first_k.size();
  k.resize(rows);
  v.resize(rows);
  if (!narrow_) {
    for (std::size_t row = 0; row < rows; ++row) {
      k[row] = wide_.first_k[row] + offset;
      v[row] = wide_.first_v[row] + offset;
    }
    for (kernels::PagedSequence& one : wide_.tables) one.offset = offset;
    return;
  }
  to_k_.resize(rows);
  to_v_.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    k[row] = &new_keys_[row * row_];
    v[row] = &new_values_[row * row_];
    to_k_[row] = in_bf16_.first_k[row] + offset;
    to_v_[row] = in_bf16_.first_v[row] + offset;
  }
  for (kernels::NarrowSequence& one : in_bf16_.tables) one.offset = offset;
}

void PageRows::store() {
  if (!narrow_) return;
  kernels::narrow_rows_cpu(std::span(new_keys_).first(to_k_.size() * row_), row_, to_k_);
  kernels::narrow_rows_cpu(std::span(new_values_).first(to_v_.size() * row_), row_, to_v_);
}

void PageRows::attend(const kernels::AttentionShape& shape, std::span<const float> q,
                      std::span<const std::uint32_t> sequence_of_row,
                      std::span<const std::uint32_t> visible_of_row, std::span<float> out) const {
  if (narrow_)
    kernels::attention_cpu(shape, q, sequence_of_row, visible_of_row, in_bf16_.tables, out);
  else
    kernels::attention_cpu(shape, q, sequence_of_row, visible_of_row, wide_.tables, out);
}

void PageRows::attend_heads(const kernels::AttentionShape& shape, std::span<const float> q,
                            std::uint32_t visible, std::size_t begin, std::size_t end,
                            std::span<float> out) const {
  const std::size_t group = shape.heads / shape.kv_heads;
  kernels::AttentionShape some = shape;
  some.heads = (end - begin) * group;
  some.kv_heads = end - begin;
  some.kv_stride = shape.kv_row();
  const std::size_t first = begin * group * shape.head_dim;
  const std::size_t values = some.heads * shape.head_dim;
  constexpr std::uint32_t sequence = 0;
  const auto attend = [&](auto table) {
    table.offset += begin * shape.head_dim;
    kernels::attention_cpu(some, q.subspan(first, values), {&sequence, 1}, {&visible, 1},
                           {&table, 1}, out.subspan(first, values));
  };
  if (narrow_)
    attend(in_bf16_.tables.front());
  else
    attend(wide_.tables.front());
}

}  // namespace sluice
