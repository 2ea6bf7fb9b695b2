// Where the rows of one forward stand in a pool's pages: the tables that attention reads, and the
// places that new keys and values go to.
//
// Laid out once a forward, for the first layer; the others lie at a fixed distance behind it. In
// f32 the rows are written where they stay, in bf16 beside the pages, and rounded into them by
// `store`. Thread: the forward's; kept from one to the next, vectors keep their memory.
#pragma once

#include <span>
#include <vector>

#include "engine/layers/kv.h"
#include "kernels/attention.h"
#include "kernels/huge_vector.h"

namespace sluice {

class PageRows {
 public:
  /// Of each row: which sequence it is of, and its place there.
  void lay_out(KvPool& pool, std::span<KvSequence* const> sequences,
               std::span<const std::uint32_t> sequence_of_row,
               std::span<const std::uint32_t> place_of_row);
  /// From now on it is about this layer; `k` and `v`: where each row is to be written.
  void enter(std::size_t layer, std::vector<float*>& k, std::vector<float*>& v);
  /// The layer's rows are written.
  void store();
  /// Over the layer's pages.
  void attend(const kernels::AttentionShape& shape, std::span<const float> q,
              std::span<const std::uint32_t> sequence_of_row,
              std::span<const std::uint32_t> visible_of_row, std::span<float> out) const;
  /// The same of one row alone, which sees `visible` tokens, for KV heads [begin, end) and the
  /// query heads that read them. By several threads at once.
  void attend_heads(const kernels::AttentionShape& shape, std::span<const float> q,
                    std::uint32_t visible, std::size_t begin, std::size_t end,
                    std::span<float> out) const;
  /// Of a pool in f32.
  std::span<const kernels::PagedSequence> tables() const { return wide_.tables; }

 private:
  template <typename Value>
  struct Tables {
    std::vector<const Value*> key_pages, value_pages;  // chunk after chunk
    std::vector<kernels::PagesOf<Value>> tables;
    std::vector<Value*> first_k, first_v;  // of each row
  };

  template <typename Value>
  void lay_out_as(KvPool& pool, std::span<KvSequence* const> sequences,
                  std::span<const std::uint32_t> sequence_of_row,
                  std::span<const std::uint32_t> place_of_row, Tables<Value>& to);

  bool narrow_ = false;
  std::size_t row_ = 0, layer_stride_ = 0;
  Tables<float> wide_;
  Tables<std::uint16_t> in_bf16_;
  std::vector<std::uint16_t*> to_k_, to_v_;           // of the layer
  kernels::HugeVector<float> new_keys_, new_values_;  // before they are rounded
};

}  // namespace sluice
