// The image codec: a picture to the latent tokens that the denoiser works on, and back.
//
// The layers are data from config.json. Shape: pixels u8 [size, size, 3]; tokens f32
// [denoiser tokens, channels * patch^2], each channel of mean 0 and deviation 1.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/layers/plane.h"
#include "engine/scenes/config.h"

namespace sluice {

class Codec {
 public:
  static Result<Codec> load(const ModelConfig& config, const SafetensorsFile& file);

  std::size_t image_size() const { return config_.vision.image; }
  Tensor encode(const Tensor& pixels) const;
  /// Requires: `tokens` has the shape above.
  Tensor decode(const Tensor& tokens) const;
  /// The decoder's output before it is rounded to bytes: [3, size, size].
  std::vector<float> decode_values(const Tensor& tokens) const;

 private:
  void load_layers(const std::vector<CodecLayer>& layers, const std::string& prefix,
                   WeightLoader& load);
  Plane run(Plane x, const std::vector<CodecLayer>& layers, const std::string& prefix) const;

  ModelConfig config_;
  std::map<std::string, Linear> convolutions_;
  std::vector<float> mean_, deviation_;
};

}  // namespace sluice
