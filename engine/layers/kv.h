// Keys and values of sequences, in pages of a fixed pool.
//
// Shape: a page holds, per layer, `page_tokens` rows of keys and as many of values, each row
// [kv_heads * head_dim] in f32. Errors: exhausted when no page is free; nothing is changed then.
// Thread: the owner's. Source: omni-flow, section 4.1.1 (physical paging).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/layers/rope.h"

namespace sluice {

struct KvShape {
  std::size_t layers = 0;
  std::size_t row = 0;  // kv_heads * head_dim
  std::size_t page_tokens = 16;
  /// Keys are stored before RoPE and rotated when they are used, so that they may be used at other
  /// positions. Costs a pass over a sequence's keys for each layer of each forward.
  bool keys_before_rope = false;

  std::size_t page_floats() const { return layers * 2 * page_tokens * row; }
};

/// The tokens of one sequence: which pages hold them. Moved, never copied: a page has one owner.
struct KvSequence {
  KvSequence() = default;
  KvSequence(KvSequence&& other) noexcept { *this = std::move(other); }
  KvSequence& operator=(KvSequence&& other) noexcept {
    pages = std::exchange(other.pages, {});
    tokens = std::exchange(other.tokens, 0);
    positions = std::exchange(other.positions, {});
    return *this;
  }

  std::vector<std::uint32_t> pages;
  std::size_t tokens = 0;
  std::vector<Position> positions;  // of each token, when keys are stored before RoPE: may be moved
};

/// Which pages are whose; where their bytes lie is another's matter.
class KvPages {
 public:
  KvPages(const KvShape& shape, std::size_t pages);

  /// Pages for `tokens` more tokens. Their rows are written before they are read.
  Result<void> extend(KvSequence& sequence, std::size_t tokens);
  /// Forgets all but the first `tokens`. Requires: there are so many.
  void truncate(KvSequence& sequence, std::size_t tokens);

  const KvShape& shape() const { return shape_; }
  std::size_t pages_free() const { return free_.size(); }
  std::size_t pages() const { return pages_; }

 private:
  KvShape shape_;
  std::size_t pages_ = 0;
  std::vector<std::uint32_t> free_;
};

/// Pages in the machine's memory.
class KvPool : public KvPages {
 public:
  KvPool(const KvShape& shape, std::size_t pages)
      : KvPages(shape, pages), store_(shape.page_floats() * pages) {}

  float* keys(std::uint32_t page, std::size_t layer);
  float* values(std::uint32_t page, std::size_t layer);

 private:
  std::vector<float> store_;
};

}  // namespace sluice
