// Convolutions of picture codecs: 1 x 1, or 3 x 3 with padding 1 and stride 1 or 2.
//
// Shape: x [in, height, width], weight [out, in * kernel^2], bias [out], y [out,
// ceil(height / stride), ceil(width / stride)], f32. A product is oneDNN's.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/matmul.h"

namespace sluice::kernels {

struct ConvShape {
  std::size_t in = 0;
  std::size_t out = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t stride = 1;
  std::size_t kernel = 3;  // odd; padded by half of it

  std::size_t taps() const { return kernel * kernel; }
  std::size_t out_height() const { return (height + stride - 1) / stride; }
  std::size_t out_width() const { return (width + stride - 1) / stride; }
};

/// Requires: the weight is kept exactly.
void conv2d_ref(const ConvShape& shape, std::span<const float> x, const Weight& weight,
                std::span<const float> bias, std::span<float> y);
void conv2d_cpu(const ConvShape& shape, std::span<const float> x, const Weight& weight,
                std::span<const float> bias, std::span<float> y);

}  // namespace sluice::kernels
