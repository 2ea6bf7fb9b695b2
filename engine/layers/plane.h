// Planes of a picture codec, and the layers that all codecs are made of.
//
// Shape: values [channels, height, width], f32. Thread: any; no state.
#pragma once

#include <vector>

#include "engine/checkpoint/weights.h"

namespace sluice {

struct Plane {
  std::vector<float> values;
  std::size_t channels = 0, height = 0, width = 0;

  std::size_t pixels() const { return height * width; }
};

/// `kernel`: 1 or 3. Requires: the layer has a bias and takes the plane's channels.
Plane convolve(const Plane& x, const Linear& layer, std::size_t kernel, std::size_t stride = 1);
/// Each pixel four times.
Plane upsample2x(const Plane& x);
/// Requires: the same shape.
void add(Plane& x, const Plane& y);

/// [channels, pixels] to [pixels, channels], and back.
std::vector<float> to_rows(const Plane& x);
Plane from_rows(const std::vector<float>& rows, const Plane& like);

}  // namespace sluice
