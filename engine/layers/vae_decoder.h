// The decoder of a convolutional VAE: a latent picture to pixels.
//
// Residual blocks of GroupNorm, SiLU and 3 x 3 convolutions, an attention at the smallest size, and
// a doubling before all but the first size. Shape: latents [channels, height, width]; pixels
// [out_channels, height * 2^(sizes - 1), width * 2^(sizes - 1)], about -1 to 1. f32 throughout.
// Thread: immutable after `load`. Source: Rombach et al. 2022, as diffusers' AutoencoderKL has it.
#pragma once

#include <vector>

#include "engine/layers/plane.h"

namespace sluice {

struct VaeShape {
  std::size_t latent_channels = 4;
  std::size_t out_channels = 3;
  std::size_t groups = 32;
  std::size_t residuals = 1;                 // layers_per_block; the decoder has one more
  std::vector<std::size_t> channels = {64};  // from the largest size to the smallest
  bool attention = true;
  bool post_convolution = true;
  float scaling = 0.18215F;  // latents a denoiser works on are this times the codec's, less shift
  float shift = 0;

  std::size_t growth() const { return std::size_t{1} << (channels.size() - 1); }
};

class VaeDecoder {
 public:
  static Result<VaeDecoder> load(const VaeShape& shape, const SafetensorsFile& file,
                                 WeightArena* arena = nullptr);

  const VaeShape& shape() const { return shape_; }
  /// Requires: `latents.channels` is the shape's; unscaled.
  Plane decode(const Plane& latents) const;
  /// What a denoiser made, unscaled.
  Plane unscaled(Plane latents) const;

 private:
  struct Residual {
    Norm norm1, norm2;
    Linear convolution1, convolution2, shortcut;  // no shortcut: the channels stay
  };
  struct Attention {
    Norm norm;
    Linear qkv, out;
  };
  struct Size {
    std::vector<Residual> residuals;
    Linear doubling;  // none behind the largest size
  };
  Residual load_residual(WeightLoader& load, const std::string& at, std::size_t in,
                         std::size_t out) const;
  Attention load_attention(WeightLoader& load, const SafetensorsFile& file,
                           std::size_t width) const;
  void run(const Residual& residual, Plane& x) const;
  void run(const Attention& attention, Plane& x) const;
  void normalise(Plane& x, const Norm& norm) const;

  VaeShape shape_;
  Linear post_, first_, last_;
  Residual middle1_, middle2_;
  Attention attention_;
  std::vector<Size> sizes_;
  Norm norm_;
};

}  // namespace sluice
