// One token through a decoder's layers as a relay of loops: what a decode step of one sequence is.
//
// A layer is five loops: qkv, attention, out, up, down. What stands between two (norms, rotary
// positions, gates, rounding for the next product) is done by whichever thread has ended a loop, so
// the step waits for no thread in particular. The same bits as `Block::project` and `finish`.
// Thread: `next` and `part` as WorkerPool::relay calls them; scratch is the forward's.
#pragma once

#include <span>
#include <vector>

#include "engine/layers/block.h"
#include "engine/layers/page_rows.h"
#include "kernels/few_rows.h"

namespace sluice {

class TokenStep {
 public:
  /// What a forward of one row works on.
  struct Forward {
    const BlockShape& shape;
    const kernels::AttentionShape& attention;
    std::span<const Block> blocks;
    const std::vector<bool>& layers_without_rope;  // empty: none
    std::size_t threads = 1;                       // of the relay
    std::uint32_t visible = 0;                     // tokens the row sees
    std::span<float> hidden;                       // [width], in and out
    BlockRows& rows;                               // count 1, with its rotary positions
    PageRows& pages;                               // laid out
    kernels::FewRowsProduct& product;
  };

  /// True when a block of this shape goes this way. Not so: adaptive norms, factors by column,
  /// keys of others.
  static bool runs(const BlockShape& shape) { return !shape.adaptive && !shape.layer_scale; }

  explicit TokenStep(const Forward& forward) : f_(forward) {}

  /// Ends the loop before and gives the next one's number of parts; 0: all layers are done.
  std::size_t next();
  void part(std::size_t begin, std::size_t end);

 private:
  enum class Loop : std::uint8_t { none, qkv, attention, out, up, down };

  const Block& block() const { return f_.blocks[layer_]; }
  void enter_layer();
  std::size_t open(Loop loop, const Linear& linear, std::span<const float> x);
  std::size_t open_attention();

  Forward f_;
  Loop loop_ = Loop::none;
  std::size_t layer_ = 0;
  std::size_t count_ = 0, units_ = 0;  // of the open loop
};

}  // namespace sluice
