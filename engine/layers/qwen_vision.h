// Qwen2.5-VL's vision tower: pictures of any size, attention in windows, merged 2 x 2.
//
// Shape: patches f32 [sum of t * h * w, 3 * temporal * patch * patch], in the processor's order
// (2 x 2 neighbours together); grid (t, h, w) per picture, in patches; features [sum / 4,
// out_width], in the same order. Source: Qwen2.5-VL technical report, section 2.1.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "engine/layers/tower.h"

namespace sluice {

struct QwenVisionShape {
  BlockShape block;
  std::size_t layers = 0;
  std::size_t patch = 14, temporal = 2, merge = 2;
  std::size_t window = 112;  // in pixels
  std::size_t out_width = 0;
  std::vector<std::size_t> full_layers;  // that see the whole picture
  std::size_t patch_values() const { return 3 * temporal * patch * patch; }
};

using Grid = std::array<std::uint32_t, 3>;  // t, h, w

/// Pictures on their way through the tower, in its order, `layer` layers from the beginning.
struct QwenVisionPass {
  std::vector<std::uint32_t> unit;   // by place in the tower: the merged patch's index in the input
  Segments windows{0}, pictures{0};  // in patches
  RopeTable rope;
  std::vector<float> hidden;
  std::size_t layer = 0;
};

class QwenVision {
 public:
  static Result<QwenVision> load(const QwenVisionShape& shape, const std::string& prefix,
                                 const SafetensorsFile& file,
                                 kernels::WeightFormat format = kernels::WeightFormat::exact,
                                 WeightArena* arena = nullptr);
  const QwenVisionShape& shape() const { return shape_; }
  /// Requires: h and w are multiples of `merge`, and the patches are as many as the grids say.
  void encode(std::span<const float> patches, std::span<const Grid> grids,
              std::vector<float>& features, const RowsWatch& watch = {}) const;
  /// The same in pieces: `begin`, all layers by any number of `advance`, `finish`.
  QwenVisionPass begin(std::span<const float> patches, std::span<const Grid> grids) const;
  void advance(QwenVisionPass& pass, std::size_t layers, const RowsWatch& watch = {}) const;
  void finish(QwenVisionPass& pass, std::vector<float>& features) const;

 private:
  QwenVisionShape shape_;
  Linear patch_, merge1_, merge2_;
  std::vector<Block> blocks_;
  Norm merge_norm_;
};

}  // namespace sluice
