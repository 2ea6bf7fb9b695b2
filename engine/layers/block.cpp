#include "engine/layers/block.h"

#include "base/check.h"

namespace sluice {

namespace {

/// The parts of one modulation row.
struct Adaptive {
  std::span<const float> scale, shift, gate;
};
Adaptive adaptive(const Modulation& modulation, std::size_t width, std::size_t row,
                  std::size_t norm) {
  const std::size_t condition = modulation.of_row.empty() ? 0 : modulation.of_row[row];
  const auto three = modulation.values.subspan((condition * 2 + norm) * 3 * width, 3 * width);
  return {three.first(width), three.subspan(width, width), three.last(width)};
}

/// hidden += x through `linear`, scaled by column or by the norm's gate.
void add_branch(const BlockShape& shape, std::span<float> hidden, const Linear& linear,
                std::span<const float> x, std::span<const float> scale, std::size_t which,
                const Modulation* modulation, BlockRows& rows) {
  if (modulation == nullptr && scale.empty())
    return kernels::matmul_add_cpu(x, linear.weight, linear.bias, hidden, rows.count);
  apply(linear, x, rows.out);
  if (modulation == nullptr) return kernels::add_cpu(hidden, rows.out, scale);
  for (std::size_t row = 0; row < rows.count; ++row)
    kernels::add_cpu(hidden.subspan(row * shape.width, shape.width),
                     std::span(rows.out).subspan(row * shape.width, shape.width),
                     adaptive(*modulation, shape.width, row, which).gate);
}

}  // namespace

BlockNames BlockNames::llama() {
  return {"input_layernorm",
          "post_attention_layernorm",
          "self_attn.q_proj",
          "self_attn.k_proj",
          "self_attn.v_proj",
          "",
          "self_attn.o_proj",
          "mlp.gate_proj",
          "mlp.up_proj",
          "mlp.down_proj",
          "",
          ""};
}

BlockNames BlockNames::siglip() {
  return {"layer_norm1",
          "layer_norm2",
          "self_attn.q_proj",
          "self_attn.k_proj",
          "self_attn.v_proj",
          "",
          "self_attn.out_proj",
          "",
          "mlp.fc1",
          "mlp.fc2",
          "",
          ""};
}

BlockNames BlockNames::dinov2() {
  return {"norm1",
          "norm2",
          "attention.attention.query",
          "attention.attention.key",
          "attention.attention.value",
          "",
          "attention.output.dense",
          "",
          "mlp.fc1",
          "mlp.fc2",
          "layer_scale1.lambda1",
          "layer_scale2.lambda1"};
}

BlockNames BlockNames::qwen_vision() {
  return {"norm1",       "norm2",         "", "", "", "attn.qkv", "attn.proj", "mlp.gate_proj",
          "mlp.up_proj", "mlp.down_proj", "", ""};
}

BlockNames BlockNames::dit() {
  return {"",
          "",
          "attn1.to_q",
          "attn1.to_k",
          "attn1.to_v",
          "",
          "attn1.to_out.0",
          "",
          "ff.net.0.proj",
          "ff.net.2",
          "",
          ""};
}

BlockNames BlockNames::timm() {
  return {"norm1",
          "norm2",
          "",
          "",
          "",
          "attn.qkv",
          "attn.proj",
          "",
          "mlp.fc1",
          "mlp.fc2",
          "ls1.scale_factor",
          "ls2.scale_factor"};
}

void apply_norm(NormKind kind, const Norm& norm, float eps, std::size_t width,
                std::span<const float> x, std::span<float> y) {
  if (kind == NormKind::rms)
    kernels::rms_norm_cpu(x, width, norm.weight, eps, y);
  else
    kernels::layer_norm_cpu(x, width, norm.weight, norm.bias, eps, y);
}

Block Block::load(WeightLoader& loader, const BlockShape& shape, const BlockNames& names,
                  const std::string& prefix, bool cross) {
  Block made;
  const std::size_t q = shape.heads * shape.head_dim;
  const std::size_t kv = shape.kv_heads * shape.head_dim;
  const bool biased = shape.norm == NormKind::layer;
  if (!shape.adaptive) {
    made.norm1 = loader.norm(prefix + names.norm1, shape.width, biased, shape.norm_plus_one);
    made.norm2 = loader.norm(prefix + names.norm2, shape.width, biased, shape.norm_plus_one);
  }
  if (cross) {
    made.qkv = loader.linear(prefix + names.q, q, shape.width, shape.qkv_bias);
    made.cross_k = loader.linear(prefix + names.k, kv, kv, shape.qkv_bias);
    made.cross_v = loader.linear(prefix + names.v, kv, kv, shape.qkv_bias);
  } else if (!names.qkv.empty())
    made.qkv = loader.linear(prefix + names.qkv, q + 2 * kv, shape.width, shape.qkv_bias);
  else
    made.qkv = loader.stacked({prefix + names.q, prefix + names.k, prefix + names.v}, {q, kv, kv},
                              shape.width, shape.qkv_bias);
  made.out = loader.linear(prefix + names.out, shape.width, q, shape.out_bias);
  if (shape.gated)
    made.up = loader.stacked({prefix + names.gate, prefix + names.up}, {shape.mlp, shape.mlp},
                             shape.width, shape.mlp_bias);
  else
    made.up = loader.linear(prefix + names.up, shape.mlp, shape.width, shape.mlp_bias);
  made.down = loader.linear(prefix + names.down, shape.width, shape.mlp, shape.mlp_bias);
  if (shape.layer_scale) {
    made.scale1 = loader.values(prefix + names.scale1, shape.width);
    made.scale2 = loader.values(prefix + names.scale2, shape.width);
  }
  return made;
}

void Block::norm_rows(const BlockShape& shape, std::size_t which, std::span<const float> hidden,
                      const Modulation* modulation, BlockRows& rows) const {
  const float eps = which == 1 && shape.eps2 != 0 ? shape.eps2 : shape.eps;
  rows.normed.resize(hidden.size());
  apply_norm(shape.norm, which == 0 ? norm1 : norm2, eps, shape.width, hidden, rows.normed);
  if (modulation == nullptr) return;
  for (std::size_t row = 0; row < rows.count; ++row) {
    const Adaptive parts = adaptive(*modulation, shape.width, row, which);
    kernels::modulate_cpu(std::span(rows.normed).subspan(row * shape.width, shape.width),
                          parts.scale, parts.shift);
  }
}

void Block::project(const BlockShape& shape, std::span<const float> hidden,
                    const Modulation* modulation, BlockRows& rows) const {
  norm_rows(shape, 0, hidden, modulation, rows);
  apply(qkv, rows.normed, rows.qkv);
  if (!rows.unsplit()) split(shape, rows);
}

void Block::split(const BlockShape& shape, BlockRows& rows) const {
  rows.q.resize(rows.count * shape.heads * shape.head_dim);
  if (is_cross()) {
    kernels::split_rotate_cpu({shape.heads, 0, shape.head_dim}, rows.qkv, rows.cross_rope.cosine,
                              rows.cross_rope.sine, rows.q, rows.k, rows.v);
    return;
  }
  kernels::HeadShape heads = shape.head_shape();
  heads.keys_unrotated = rows.keys_unrotated;
  const RopeTable none;
  const RopeTable& rope = rows.turns ? rows.rope : none;
  kernels::split_rotate_cpu(heads, rows.qkv, rope.cosine, rope.sine, rows.q, rows.k, rows.v);
}

void Block::finish(const BlockShape& shape, std::span<float> hidden, const Modulation* modulation,
                   BlockRows& rows) const {
  add_branch(shape, hidden, out, rows.mixed, scale1, 0, modulation, rows);
  norm_rows(shape, 1, hidden, modulation, rows);
  rows.activated.resize(rows.count * shape.mlp);
  if (shape.gated) {
    kernels::matmul_gated_cpu(shape.activation, rows.normed, up.weight, up.bias, rows.activated,
                              rows.count);
  } else {
    kernels::matmul_activate_cpu(shape.activation, rows.normed, up.weight, up.bias, rows.activated,
                                 rows.count);
  }
  add_branch(shape, hidden, down, rows.activated, scale2, 1, modulation, rows);
}

std::size_t Block::stream_bytes() const {
  std::size_t bytes = 0;
  for (const Linear* linear : {&qkv, &out, &up, &down}) bytes += linear->weight.stream_bytes();
  return bytes;
}

}  // namespace sluice
