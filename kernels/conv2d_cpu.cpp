#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/conv2d.h"

namespace sluice::kernels {

void conv2d_cpu(const ConvShape& shape, std::span<const float> x, const Weight& weight,
                std::span<const float> bias, std::span<float> y) {
  const std::size_t rows = shape.out_height();
  const std::size_t columns = shape.out_width();
  const std::size_t pixels = rows * columns;
  SLUICE_CHECK(x.size() >= shape.in * shape.height * shape.width && y.size() >= shape.out * pixels,
               "convolution sizes do not fit");
  // Each column of the product is one output pixel's neighbourhood; the product itself is oneDNN's.
  std::vector<float> patches(shape.in * 9 * pixels);
  const auto height = static_cast<std::ptrdiff_t>(shape.height);
  const auto width = static_cast<std::ptrdiff_t>(shape.width);
  for (std::size_t i = 0; i < shape.in * 9; ++i) {
    float* to = patches.data() + i * pixels;
    const float* from = x.data() + i / 9 * shape.height * shape.width;
    for (std::size_t row = 0; row < rows; ++row) {
      const auto r = static_cast<std::ptrdiff_t>(row * shape.stride + i % 9 / 3) - 1;
      for (std::size_t column = 0; column < columns; ++column, ++to) {
        const auto c = static_cast<std::ptrdiff_t>(column * shape.stride + i % 3) - 1;
        if (r >= 0 && c >= 0 && r < height && c < width) *to = from[r * width + c];
      }
    }
  }
  gemm_cpu(weight.f32().data(), patches.data(), y.data(), shape.out, pixels, shape.in * 9);
  for (std::size_t o = 0; o < shape.out; ++o)
    for (std::size_t p = 0; p < pixels; ++p) y[o * pixels + p] += bias[o];
}

}  // namespace sluice::kernels
