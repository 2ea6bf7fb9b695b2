#include "engine/layers/convolution_codec.h"

#include "base/check.h"
#include "engine/layers/tower.h"
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

Result<void> check_layers(const ConvolutionCodecShape& shape) {
  const PlaneSize picture{3, shape.side};
  const PlaneSize latent{shape.channels, shape.latent};
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
  if (Result<void> fits = leads(shape.encoder, picture, latent, "codec.encoder"); !fits.ok())
    return fits;
  return leads(shape.decoder, latent, picture, "codec.decoder");
}

}  // namespace

void ConvolutionCodec::load_layers(const std::vector<CodecLayer>& layers, const std::string& prefix,
                                   WeightLoader& load) {
  for (const CodecLayer& layer : layers) {
    if (layer.kind == CodecLayer::Kind::conv)
      convolutions_[prefix + layer.name] =
          load.linear(prefix + layer.name, layer.out, layer.in * 9, true);
    load_layers(layer.body, prefix, load);
  }
}

Result<ConvolutionCodec> ConvolutionCodec::load(const ConvolutionCodecShape& shape,
                                                const SafetensorsFile& file, WeightArena* arena) {
  if (Result<void> fits = check_layers(shape); !fits.ok()) return fits.error();
  ConvolutionCodec made;
  made.shape_ = shape;
  WeightLoader load(file, kernels::WeightFormat::exact, arena);
  made.load_layers(shape.encoder, "codec.encoder.", load);
  made.load_layers(shape.decoder, "codec.decoder.", load);
  made.mean_ = load.values("codec.latent_mean", shape.channels);
  made.deviation_ = load.values("codec.latent_std", shape.channels);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

Plane ConvolutionCodec::run(Plane x, const std::vector<CodecLayer>& layers,
                            const std::string& prefix) const {
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

std::vector<float> ConvolutionCodec::encode(std::span<const float> pixels) const {
  SLUICE_CHECK(pixels.size() == 3 * shape_.side * shape_.side, "the picture has the codec's size");
  const Plane z = run({{pixels.begin(), pixels.end()}, 3, shape_.side, shape_.side}, shape_.encoder,
                      "codec.encoder.");
  std::vector<float> rows = to_rows(z);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t c = i % shape_.channels;
    rows[i] = (rows[i] - mean_[c]) / deviation_[c];
  }
  return merge_neighbours(rows, z.width, shape_.channels, shape_.patch);
}

Plane ConvolutionCodec::decode(std::span<const float> latents) const {
  SLUICE_CHECK(latents.size() == shape_.tokens() * shape_.token_values(),
               "the latents have the codec's size");
  std::vector<float> rows = split_neighbours(latents, shape_.latent, shape_.channels, shape_.patch);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t c = i % shape_.channels;
    rows[i] = rows[i] * deviation_[c] + mean_[c];
  }
  return run(from_rows(rows, {{}, shape_.channels, shape_.latent, shape_.latent}), shape_.decoder,
             "codec.decoder.");
}

}  // namespace sluice
