// The vision encoder of models/scenes: a picture of the model's size to feature tokens for the
// backbone.
//
// Shape: pixels u8 [size, size, 3]; features f32 [(size / patch / merge)^2, width].
// Source: SigLIP for the tower, Qwen2-VL for the 2 x 2 merger.
#pragma once

#include "engine/layers/tower.h"
#include "engine/scenes/config.h"

namespace sluice {

class Vision {
 public:
  static Result<Vision> load(const ModelConfig& config, const SafetensorsFile& file);

  std::size_t image_size() const { return config_.vision.image; }
  /// Requires: `pixels` has the model's size.
  Tensor encode(const Tensor& pixels) const;

 private:
  ModelConfig config_;
  Tower tower_;
  Linear merge1_, merge2_;
};

}  // namespace sluice
