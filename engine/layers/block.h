// One transformer layer as data: what every family's layer is made of, in two halves.
//
// Between the halves stands the attention, which differs: over pages (`Decoder`) or over the rows
// themselves (`Tower`). Query, key and value weights are fused at load, gate and up likewise.
// Shape: rows [count, width], f32. Thread: immutable after `load`.
// Source: Llama, Gemma, SigLIP, DINOv2 as their public implementations have them; openpi for the
// adaptive norm (adaRMS), Peebles and Xie 2023 for its LayerNorm form.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/weights.h"
#include "engine/layers/rope.h"
#include "kernels/elementwise.h"
#include "kernels/huge_vector.h"

namespace sluice {

enum class NormKind : std::uint8_t { rms, layer };

struct BlockShape {
  std::size_t width = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
  std::size_t mlp = 0;
  NormKind norm = NormKind::rms;
  float eps = 1e-6F;
  float eps2 = 0;              // of the second norm; 0: the same
  bool norm_plus_one = false;  // Gemma: the norm's factor is 1 + w
  bool adaptive = false;       // norms have no weight; a condition brings scale, shift and gate
  bool layer_scale = false;
  kernels::Activation activation = kernels::Activation::silu;
  bool gated = true;
  bool qkv_bias = false, out_bias = false, mlp_bias = false;

  kernels::HeadShape head_shape() const { return {heads, kv_heads, head_dim}; }
};

/// Where a layer's weights stand, behind the layer's own prefix. `qkv` set: stored fused.
/// `gate` is not read when the MLP has no gate.
struct BlockNames {
  std::string norm1, norm2, q, k, v, qkv, out, gate, up, down, scale1, scale2;
  static BlockNames llama();  // also Qwen2, Gemma
  static BlockNames siglip();
  static BlockNames dinov2();
  static BlockNames qwen_vision();
  /// diffusers' DiT; its norms have no weights.
  static BlockNames dit();
  /// timm, with OpenVLA's name for LayerScale.
  static BlockNames timm();
};

/// What adaptive norms of one layer add, [conditions, 6 * width]: scale, shift, gate of the first
/// norm, then of the second.
struct Modulation {
  std::span<const float> values;
  std::span<const std::uint32_t> of_row;  // which condition
};

/// Scratch of one forward, shared by its layers.
struct BlockRows {
  std::size_t count = 0;
  RopeTable rope;
  RopeTable cross_rope;  // of queries to others' keys
  bool turns = true;     // the layer has rotary positions, where the forward has any
  bool keys_unrotated = false;
  std::vector<float*> k, v;  // where each row's keys and values go; none: they stay in qkv
  kernels::HugeVector<float> normed, qkv, q, mixed, out, up, activated;
  kernels::HugeVector<float> keys, values;  // where k and v point, when the rows are their own

  /// Queries, keys and values are read from qkv: nothing rotates them.
  bool unsplit() const { return k.empty(); }
};

struct Block {
  Norm norm1, norm2;
  Linear qkv, out, up, down;  // `up` holds gate and up when gated
  Linear cross_k, cross_v;    // of a layer that attends to others' keys and values; `qkv` is q then
  std::vector<float> scale1, scale2;

  /// `cross`: attends to keys and values that it projects once more.
  static Block load(WeightLoader& loader, const BlockShape& shape, const BlockNames& names,
                    const std::string& prefix, bool cross = false);

  bool is_cross() const { return cross_k.weight.out() != 0; }
  /// Before the attention: rows.q, and keys and values where rows.k and rows.v say; rows.qkv alone
  /// where these are empty.
  void project(const BlockShape& shape, std::span<const float> hidden, const Modulation* modulation,
               BlockRows& rows) const;
  /// The second half of `project`, when rows.qkv is there. Requires: rows are split.
  void split(const BlockShape& shape, BlockRows& rows) const;
  /// rows.normed of `hidden` by the first norm or the second.
  void norm_rows(const BlockShape& shape, std::size_t which, std::span<const float> hidden,
                 const Modulation* modulation, BlockRows& rows) const;
  /// After it: adds what rows.mixed gives, then the MLP, to `hidden`.
  void finish(const BlockShape& shape, std::span<float> hidden, const Modulation* modulation,
              BlockRows& rows) const;
  std::size_t stream_bytes() const;
};

/// `y` gets the size that it needs.
template <typename Allocator>
void apply(const Linear& linear, std::span<const float> x, std::vector<float, Allocator>& y) {
  const std::size_t rows = x.size() / linear.weight.in();
  y.resize(rows * linear.weight.out());
  kernels::matmul_cpu(x, linear.weight, linear.bias, y, rows);
}
/// `y` has `x`'s size and is not `x`.
void apply_norm(NormKind kind, const Norm& norm, float eps, std::size_t width,
                std::span<const float> x, std::span<float> y);

}  // namespace sluice
