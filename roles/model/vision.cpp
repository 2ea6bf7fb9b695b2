#include "roles/model/vision.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"

namespace sluice {

namespace {

std::vector<float> project(const Linear& linear, const std::vector<float>& x) {
  const std::size_t rows = x.size() / linear.weight.in();
  std::vector<float> y(rows * linear.weight.out());
  kernels::matmul_cpu(x, linear.weight, linear.bias, y, rows);
  return y;
}

std::vector<float> normalise(const Norm& norm, const std::vector<float>& x, float eps) {
  std::vector<float> y(x.size());
  kernels::layer_norm_cpu(x, norm.weight, norm.bias, eps, y);
  return y;
}

void add(std::vector<float>& x, const std::vector<float>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i % y.size()];
}

/// [tokens, 3 * patch * patch]: each row is one patch, channel by channel.
std::vector<float> patches_of(const Tensor& pixels, std::size_t patch) {
  const auto size = static_cast<std::size_t>(pixels.dim(0));
  const std::span<const std::uint8_t> bytes = pixels.u8();
  std::vector<float> rows;
  rows.reserve(size * size * 3);
  for (std::size_t py = 0; py < size; py += patch)
    for (std::size_t px = 0; px < size; px += patch)
      for (std::size_t channel = 0; channel < 3; ++channel)
        for (std::size_t y = 0; y < patch; ++y)
          for (std::size_t x = 0; x < patch; ++x)
            rows.push_back(
                static_cast<float>(bytes[((py + y) * size + px + x) * 3 + channel]) / 127.5F -
                1.0F);
  return rows;
}

}  // namespace

std::vector<float> merge_neighbours(const std::vector<float>& rows, std::size_t side,
                                    std::size_t channels, std::size_t n) {
  std::vector<float> merged;
  merged.reserve(rows.size());
  for (std::size_t y = 0; y < side; y += n)
    for (std::size_t x = 0; x < side; x += n)
      for (std::size_t dy = 0; dy < n; ++dy)
        for (std::size_t dx = 0; dx < n; ++dx) {
          const auto from = rows.begin() + static_cast<std::ptrdiff_t>(
                                               ((y + dy) * side + x + dx) * channels);
          merged.insert(merged.end(), from, from + static_cast<std::ptrdiff_t>(channels));
        }
  return merged;
}

std::vector<float> split_neighbours(const std::vector<float>& rows, std::size_t side,
                                    std::size_t channels, std::size_t n) {
  std::vector<float> split(rows.size());
  std::size_t at = 0;
  for (std::size_t y = 0; y < side; y += n)
    for (std::size_t x = 0; x < side; x += n)
      for (std::size_t dy = 0; dy < n; ++dy)
        for (std::size_t dx = 0; dx < n; ++dx)
          for (std::size_t c = 0; c < channels; ++c)
            split[((y + dy) * side + x + dx) * channels + c] = rows[at++];
  return split;
}

Result<Vision> Vision::load(const ModelConfig& config, const SafetensorsFile& file) {
  const ModelConfig::Vision& c = config.vision;
  Vision made;
  made.config_ = config;
  WeightLoader load(file);
  const std::size_t tokens = (c.image / c.patch) * (c.image / c.patch);
  made.patch_ = load.linear("vision.patch_embedding", c.width, 3 * c.patch * c.patch, true);
  made.positions_ = load.values("vision.position_embedding", tokens * c.width);
  for (std::size_t i = 0; i < c.layers; ++i) {
    const std::string at = "vision.layers." + std::to_string(i) + ".";
    Layer layer;
    layer.norm1 = load.norm(at + "layer_norm1", c.width, true);
    layer.norm2 = load.norm(at + "layer_norm2", c.width, true);
    layer.q = load.linear(at + "self_attn.q_proj", c.width, c.width, true);
    layer.k = load.linear(at + "self_attn.k_proj", c.width, c.width, true);
    layer.v = load.linear(at + "self_attn.v_proj", c.width, c.width, true);
    layer.out = load.linear(at + "self_attn.out_proj", c.width, c.width, true);
    layer.fc1 = load.linear(at + "mlp.fc1", c.mlp, c.width, true);
    layer.fc2 = load.linear(at + "mlp.fc2", c.width, c.mlp, true);
    made.layers_.push_back(std::move(layer));
  }
  made.post_ = load.norm("vision.post_layernorm", c.width, true);
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
  std::vector<float> x = project(patch_, patches_of(pixels, c.patch));
  add(x, positions_);
  const std::size_t tokens = x.size() / c.width;
  const std::vector<std::uint32_t> first(tokens, 0);
  const std::vector<std::uint32_t> all(tokens, static_cast<std::uint32_t>(tokens));
  for (const Layer& layer : layers_) {
    const std::vector<float> normed = normalise(layer.norm1, x, c.eps);
    const std::vector<float> q = project(layer.q, normed);
    const std::vector<float> k = project(layer.k, normed);
    const std::vector<float> v = project(layer.v, normed);
    const float* keys = k.data();
    const float* values = v.data();
    const kernels::PagedSequence whole{{&keys, 1}, {&values, 1}};
    std::vector<float> mixed(x.size());
    kernels::attention_cpu({c.heads, c.heads, c.width / c.heads, tokens}, q, first, all,
                           {&whole, 1}, mixed);
    add(x, project(layer.out, mixed));
    std::vector<float> inner = project(layer.fc1, normalise(layer.norm2, x, c.eps));
    kernels::gelu_tanh_cpu(inner);
    add(x, project(layer.fc2, inner));
  }
  x = normalise(post_, x, c.eps);
  std::vector<float> merged =
      project(merge1_, merge_neighbours(x, c.image / c.patch, c.width, c.merge));
  kernels::gelu_tanh_cpu(merged);
  std::vector<float> features = project(merge2_, merged);
  const auto rows = static_cast<std::int64_t>(features.size() / config_.width);
  return Tensor::of_f32({rows, static_cast<std::int64_t>(config_.width)}, std::move(features));
}

}  // namespace sluice
