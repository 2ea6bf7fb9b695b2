// A picture codec of plain convolutions: a picture to the latent tokens that a denoiser works on,
// and back.
//
// Which layers it has is data. Shape: pixels f32 [3, side, side], -1 to 1; latents f32 [tokens,
// token_values], each channel of mean 0 and deviation 1. f32 throughout. Thread: immutable after
// `load`. Errors: corrupt (layers that do not fit each other), and those of the weights.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/layers/plane.h"

namespace sluice {

/// One layer, as data. `residual` adds what `body` makes of its input.
struct CodecLayer {
  enum class Kind : std::uint8_t { conv, silu, upsample2x, residual } kind = Kind::silu;
  std::string name;
  std::size_t in = 0;
  std::size_t out = 0;
  std::size_t stride = 1;
  std::vector<CodecLayer> body;
};

struct ConvolutionCodecShape {
  std::size_t side = 0;      // of a picture
  std::size_t channels = 0;  // of latents
  std::size_t latent = 0;    // side of the latents
  std::size_t patch = 0;     // so many neighbours squared are one token
  std::vector<CodecLayer> encoder, decoder;

  std::size_t tokens() const { return (latent / patch) * (latent / patch); }
  std::size_t token_values() const { return channels * patch * patch; }
};

class ConvolutionCodec {
 public:
  static Result<ConvolutionCodec> load(const ConvolutionCodecShape& shape,
                                       const SafetensorsFile& file, WeightArena* arena = nullptr);

  const ConvolutionCodecShape& shape() const { return shape_; }
  /// Requires: the shape's sizes.
  std::vector<float> encode(std::span<const float> pixels) const;
  Plane decode(std::span<const float> latents) const;

 private:
  void load_layers(const std::vector<CodecLayer>& layers, const std::string& prefix,
                   WeightLoader& load);
  Plane run(Plane x, const std::vector<CodecLayer>& layers, const std::string& prefix) const;

  ConvolutionCodecShape shape_;
  std::map<std::string, Linear> convolutions_;
  std::vector<float> mean_, deviation_;
};

}  // namespace sluice
