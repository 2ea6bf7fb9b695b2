#include "engine/scenes/vision.h"

#include "base/check.h"

namespace sluice {

namespace {

TowerShape shape_of(const ModelConfig::Vision& c) {
  TowerShape shape;
  shape.block.width = c.width;
  shape.block.heads = shape.block.kv_heads = c.heads;
  shape.block.head_dim = c.width / c.heads;
  shape.block.mlp = c.mlp;
  shape.block.norm = NormKind::layer;
  shape.block.eps = c.eps;
  shape.block.activation = kernels::Activation::gelu_tanh;
  shape.block.gated = false;
  shape.block.qkv_bias = shape.block.out_bias = shape.block.mlp_bias = true;
  shape.layers = c.layers;
  shape.side = c.image;
  shape.patch = c.patch;
  return shape;
}

}  // namespace

Result<Vision> Vision::load(const ModelConfig& config, const SafetensorsFile& file) {
  const ModelConfig::Vision& c = config.vision;
  Vision made;
  made.config_ = config;
  const TowerNames names{
      "vision.patch_embedding", "vision.position_embedding", "", "", "vision.layers.",
      "vision.post_layernorm",  BlockNames::siglip()};
  Result<Tower> tower = Tower::load(shape_of(c), names, file);
  if (!tower.ok()) return tower.error();
  made.tower_ = std::move(tower).value();
  WeightLoader load(file);
  made.merge1_ = load.linear("vision.merger.fc1", c.merger, c.merge * c.merge * c.width, true);
  made.merge2_ = load.linear("vision.merger.fc2", config.width, c.merger, true);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

Tensor Vision::encode(const Tensor& pixels) const {
  const ModelConfig::Vision& c = config_.vision;
  SLUICE_CHECK(pixels.shape().size() == 3 && static_cast<std::size_t>(pixels.dim(0)) == c.image &&
                   pixels.dim(1) == pixels.dim(0) && pixels.dim(2) == 3,
               "the picture must have the model's size");
  std::vector<float> planes;
  planes.reserve(pixels.bytes_size());
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (std::size_t i = channel; i < pixels.bytes_size(); i += 3)
      planes.push_back(static_cast<float>(pixels.u8()[i]) / 127.5F - 1.0F);
  std::vector<float> x, inner, features;
  tower_.encode(planes, x);
  apply(merge1_, merge_neighbours(x, c.image / c.patch, c.width, c.merge), inner);
  kernels::activate_cpu(kernels::Activation::gelu_tanh, inner);
  apply(merge2_, inner, features);
  const auto rows = static_cast<std::int64_t>(features.size() / config_.width);
  return Tensor::of_f32({rows, static_cast<std::int64_t>(config_.width)}, std::move(features));
}

}  // namespace sluice
