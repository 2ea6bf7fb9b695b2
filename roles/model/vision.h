// The vision encoder: a picture of the model's size to feature tokens for the backbone.
//
// Shape: pixels u8 [size, size, 3]; features f32 [(size / patch / merge)^2, width].
// Source: SigLIP for the blocks, Qwen2-VL for the 2 x 2 merger.
#pragma once

#include <vector>

#include "roles/model/config.h"
#include "roles/model/weights.h"

namespace sluice {

class Vision {
 public:
  static Result<Vision> load(const ModelConfig& config, const SafetensorsFile& file);

  std::size_t image_size() const { return config_.vision.image; }
  /// Requires: `pixels` has the model's size.
  Tensor encode(const Tensor& pixels) const;

 private:
  struct Layer {
    Norm norm1, norm2;
    Linear q, k, v, out, fc1, fc2;
  };
  ModelConfig config_;
  Linear patch_;
  std::vector<float> positions_;
  std::vector<Layer> layers_;
  Norm post_;
  Linear merge1_, merge2_;
};

/// [side*side, channels] to [(side/n)^2, n*n*channels], neighbours row by row.
std::vector<float> merge_neighbours(const std::vector<float>& rows, std::size_t side,
                                    std::size_t channels, std::size_t n);
/// The inverse.
std::vector<float> split_neighbours(const std::vector<float>& rows, std::size_t side,
                                    std::size_t channels, std::size_t n);

}  // namespace sluice
