#include "engine/layers/vae_decoder.h"

#include <string>

#include "base/check.h"
#include "engine/layers/block.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/group_norm.h"

namespace sluice {

namespace {

constexpr float eps = 1e-6F;

}  // namespace

VaeDecoder::Residual VaeDecoder::load_residual(WeightLoader& load, const std::string& at,
                                               std::size_t in, std::size_t out) const {
  Residual made;
  made.norm1 = load.norm(at + "norm1", in, true);
  made.norm2 = load.norm(at + "norm2", out, true);
  made.convolution1 = load.linear(at + "conv1", out, in * 9, true);
  made.convolution2 = load.linear(at + "conv2", out, out * 9, true);
  if (in != out) made.shortcut = load.linear(at + "conv_shortcut", out, in, true);
  return made;
}

/// Files from before diffusers 0.18 have other names for the projections.
VaeDecoder::Attention VaeDecoder::load_attention(WeightLoader& load, const SafetensorsFile& file,
                                                 std::size_t width) const {
  const std::string at = "decoder.mid_block.attentions.0.";
  const bool old = file.find(at + "query.weight") != nullptr;
  const auto name = [&](const char* before, const char* now) { return at + (old ? before : now); };
  Attention made;
  made.norm = load.norm(at + "group_norm", width, true);
  made.qkv = load.stacked({name("query", "to_q"), name("key", "to_k"), name("value", "to_v")},
                          {width, width, width}, width, true);
  made.out = load.linear(name("proj_attn", "to_out.0"), width, width, true);
  return made;
}

Result<VaeDecoder> VaeDecoder::load(const VaeShape& shape, const SafetensorsFile& file,
                                    WeightArena* arena) {
  VaeDecoder made;
  made.shape_ = shape;
  WeightLoader load(file, kernels::WeightFormat::exact, arena);
  const std::size_t latent = shape.latent_channels;
  std::size_t width = shape.channels.back();
  if (shape.post_convolution) made.post_ = load.linear("post_quant_conv", latent, latent, true);
  made.first_ = load.linear("decoder.conv_in", width, latent * 9, true);
  made.middle1_ = made.load_residual(load, "decoder.mid_block.resnets.0.", width, width);
  made.middle2_ = made.load_residual(load, "decoder.mid_block.resnets.1.", width, width);
  if (shape.attention) made.attention_ = made.load_attention(load, file, width);
  for (std::size_t i = 0; i < shape.channels.size(); ++i) {
    const std::string at = "decoder.up_blocks." + std::to_string(i) + ".";
    const std::size_t out = shape.channels[shape.channels.size() - 1 - i];
    Size size;
    for (std::size_t j = 0; j <= shape.residuals; ++j) {
      const std::string residual = at + "resnets." + std::to_string(j) + ".";
      size.residuals.push_back(made.load_residual(load, residual, j == 0 ? width : out, out));
    }
    if (i + 1 < shape.channels.size())
      size.doubling = load.linear(at + "upsamplers.0.conv", out, out * 9, true);
    made.sizes_.push_back(std::move(size));
    width = out;
  }
  made.norm_ = load.norm("decoder.conv_norm_out", width, true);
  made.last_ = load.linear("decoder.conv_out", shape.out_channels, width * 9, true);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

void VaeDecoder::normalise(Plane& x, const Norm& norm) const {
  kernels::group_norm_cpu(x.values, shape_.groups, norm.weight, norm.bias, eps);
}

void VaeDecoder::run(const Residual& residual, Plane& x) const {
  Plane inner = x;
  normalise(inner, residual.norm1);
  kernels::activate_cpu(kernels::Activation::silu, inner.values);
  inner = convolve(inner, residual.convolution1, 3);
  normalise(inner, residual.norm2);
  kernels::activate_cpu(kernels::Activation::silu, inner.values);
  inner = convolve(inner, residual.convolution2, 3);
  if (residual.shortcut.weight.out() != 0) x = convolve(x, residual.shortcut, 1);
  add(x, inner);
}

void VaeDecoder::run(const Attention& attention, Plane& x) const {
  Plane normed = x;
  normalise(normed, attention.norm);
  const std::size_t width = x.channels;
  const std::size_t count = x.pixels();
  std::vector<float> qkv, keys(count * width), values(count * width), q(count * width), out;
  apply(attention.qkv, to_rows(normed), qkv);
  std::vector<float*> k, v;
  for (std::size_t i = 0; i < count; ++i) {
    k.push_back(&keys[i * width]);
    v.push_back(&values[i * width]);
  }
  kernels::split_rotate_cpu({1, 1, width}, qkv, {}, {}, q, k, v);
  const std::vector<std::uint32_t> sequence(count, 0);
  const std::vector<std::uint32_t> visible(count, static_cast<std::uint32_t>(count));
  const float* key_page = keys.data();
  const float* value_page = values.data();
  const kernels::PagedSequence pages{{&key_page, 1}, {&value_page, 1}};
  std::vector<float> mixed(count * width);
  kernels::attention_cpu({1, 1, width, count, false}, q, sequence, visible, {&pages, 1}, mixed);
  apply(attention.out, mixed, out);
  add(x, from_rows(out, x));
}

Plane VaeDecoder::decode(const Plane& latents) const {
  SLUICE_CHECK(latents.channels == shape_.latent_channels, "latents have the codec's channels");
  Plane x = shape_.post_convolution ? convolve(latents, post_, 1) : latents;
  x = convolve(x, first_, 3);
  run(middle1_, x);
  if (shape_.attention) run(attention_, x);
  run(middle2_, x);
  for (const Size& size : sizes_) {
    for (const Residual& residual : size.residuals) run(residual, x);
    if (size.doubling.weight.out() != 0) x = convolve(upsample2x(x), size.doubling, 3);
  }
  normalise(x, norm_);
  kernels::activate_cpu(kernels::Activation::silu, x.values);
  return convolve(x, last_, 3);
}

Plane VaeDecoder::unscaled(Plane latents) const {
  for (float& v : latents.values) v = v / shape_.scaling + shape_.shift;
  return latents;
}

}  // namespace sluice
