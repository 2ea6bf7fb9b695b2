// A 3 x 3 convolution with padding 1 and stride 1 or 2: what the image codec is made of.
//
// Shape: x [in, height, width], weight [out, in*9], y [out, ceil(height/stride),
// ceil(width/stride)].
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

  std::size_t out_height() const { return (height + stride - 1) / stride; }
  std::size_t out_width() const { return (width + stride - 1) / stride; }
};

void conv2d_ref(const ConvShape& shape, std::span<const float> x, const Weight& weight,
                std::span<const float> bias, std::span<float> y);
void conv2d_cpu(const ConvShape& shape, std::span<const float> x, const Weight& weight,
                std::span<const float> bias, std::span<float> y);

}  // namespace sluice::kernels
