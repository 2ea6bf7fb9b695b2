#include "engine/scenes/codec.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/scenes/vision.h"
#include "kernels/elementwise.h"

namespace sluice {

namespace {

struct PlaneSize {
  std::size_t channels = 0;
  std::size_t side = 0;
};

/// What comes out of `layers` for `size`; an error when they do not fit each other.
Result<PlaneSize> follow(const std::vector<CodecLayer>& layers, PlaneSize size,
                         const std::string& where) {
  constexpr std::size_t side_max = 4096;
  for (const CodecLayer& layer : layers) {
    if (layer.kind == CodecLayer::Kind::conv) {
      if (layer.in != size.channels)
        return Error{ErrorCode::corrupt, where + ", layer '" + layer.name + "': takes " +
                                             std::to_string(layer.in) + " channels, gets " +
                                             std::to_string(size.channels)};
      size = {layer.out, (size.side + layer.stride - 1) / layer.stride};
    } else if (layer.kind == CodecLayer::Kind::upsample2x) {
      size.side *= 2;
      if (size.side > side_max)
        return Error{ErrorCode::exhausted,
                     where + ": planes larger than " + std::to_string(side_max) + " a side"};
    } else if (layer.kind == CodecLayer::Kind::residual) {
      const Result<PlaneSize> inner = follow(layer.body, size, where);
      if (!inner.ok()) return inner.error();
      if (inner->channels != size.channels || inner->side != size.side)
        return Error{ErrorCode::corrupt, where + ": the body of a residual changes the shape"};
    }
  }
  return size;
}

Result<void> check_layers(const ModelConfig& config) {
  const PlaneSize picture{3, config.vision.image};
  const PlaneSize latent{config.codec.channels, config.codec.latent};
  const auto leads = [](const std::vector<CodecLayer>& layers, PlaneSize from, PlaneSize to,
                        const std::string& where) -> Result<void> {
    const Result<PlaneSize> end = follow(layers, from, where);
    if (!end.ok()) return end.error();
    if (end->channels == to.channels && end->side == to.side) return {};
    return Error{ErrorCode::corrupt, where + " ends with " + std::to_string(end->channels) +
                                         " channels of side " + std::to_string(end->side) +
                                         ", it must be " + std::to_string(to.channels) +
                                         " of side " + std::to_string(to.side)};
  };
  if (Result<void> fits = leads(config.codec.encoder, picture, latent, "codec.encoder"); !fits.ok())
    return fits;
  return leads(config.codec.decoder, latent, picture, "codec.decoder");
}

}  // namespace

void Codec::load_layers(const std::vector<CodecLayer>& layers, const std::string& prefix,
                        WeightLoader& load) {
  for (const CodecLayer& layer : layers) {
    if (layer.kind == CodecLayer::Kind::conv)
      convolutions_[prefix + layer.name] =
          load.linear(prefix + layer.name, layer.out, layer.in * 9, true);
    load_layers(layer.body, prefix, load);
  }
}

Result<Codec> Codec::load(const ModelConfig& config, const SafetensorsFile& file) {
  if (Result<void> fits = check_layers(config); !fits.ok()) return fits.error();
  Codec made;
  made.config_ = config;
  WeightLoader load(file);
  made.load_layers(config.codec.encoder, "codec.encoder.", load);
  made.load_layers(config.codec.decoder, "codec.decoder.", load);
  made.mean_ = load.values("codec.latent_mean", config.codec.channels);
  made.deviation_ = load.values("codec.latent_std", config.codec.channels);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

Plane Codec::run(Plane x, const std::vector<CodecLayer>& layers, const std::string& prefix) const {
  for (const CodecLayer& layer : layers) {
    switch (layer.kind) {
      case CodecLayer::Kind::conv:
        x = convolve(x, convolutions_.at(prefix + layer.name), 3, layer.stride);
        break;
      case CodecLayer::Kind::silu:
        kernels::activate_cpu(kernels::Activation::silu, x.values);
        break;
      case CodecLayer::Kind::upsample2x:
        x = upsample2x(x);
        break;
      case CodecLayer::Kind::residual:
        add(x, run(x, layer.body, prefix));
        break;
    }
  }
  return x;
}

Tensor Codec::encode(const Tensor& pixels) const {
  const std::size_t side = image_size();
  SLUICE_CHECK(static_cast<std::size_t>(pixels.count()) == side * side * 3,
               "the picture must have the model's size");
  Plane x{std::vector<float>(side * side * 3), 3, side, side};
  for (std::size_t i = 0; i < x.values.size(); ++i)
    x.values[i % 3 * side * side + i / 3] = static_cast<float>(pixels.u8()[i]) / 127.5F - 1.0F;
  const Plane z = run(std::move(x), config_.codec.encoder, "codec.encoder.");
  const std::size_t channels = config_.codec.channels;
  std::vector<float> rows(z.values.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t c = i % channels;
    rows[i] = (z.values[c * z.pixels() + i / channels] - mean_[c]) / deviation_[c];
  }
  return Tensor::of_f32({static_cast<std::int64_t>(config_.denoiser.tokens),
                         static_cast<std::int64_t>(config_.denoiser.token_dim)},
                        merge_neighbours(rows, z.width, channels, config_.codec.patch));
}

std::vector<float> Codec::decode_values(const Tensor& tokens) const {
  const std::size_t side = config_.codec.latent;
  const std::size_t channels = config_.codec.channels;
  const std::vector<float> rows = split_neighbours({tokens.f32().begin(), tokens.f32().end()}, side,
                                                   channels, config_.codec.patch);
  Plane z{std::vector<float>(rows.size()), channels, side, side};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t c = i % channels;
    z.values[c * side * side + i / channels] = rows[i] * deviation_[c] + mean_[c];
  }
  return run(std::move(z), config_.codec.decoder, "codec.decoder.").values;
}

Tensor Codec::decode(const Tensor& tokens) const {
  const std::vector<float> values = decode_values(tokens);
  const std::size_t side = image_size();
  Tensor pixels = std::move(Tensor::zeros(Dtype::u8, {static_cast<std::int64_t>(side),
                                                      static_cast<std::int64_t>(side), 3}))
                      .value();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float value = values[i % 3 * side * side + i / 3] * 127.5F + 127.5F;
    pixels.u8()[i] = static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
  }
  return pixels;
}

}  // namespace sluice
