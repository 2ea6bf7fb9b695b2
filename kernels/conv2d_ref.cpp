#include "kernels/conv2d.h"

namespace sluice::kernels {

void conv2d_ref(const ConvShape& shape, std::span<const float> x, const Weight& weight,
                std::span<const float> bias, std::span<float> y) {
  const auto height = static_cast<std::ptrdiff_t>(shape.height);
  const auto width = static_cast<std::ptrdiff_t>(shape.width);
  const auto pad = static_cast<std::ptrdiff_t>(shape.kernel / 2);
  const std::size_t taps = shape.taps();
  std::size_t at = 0;
  for (std::size_t o = 0; o < shape.out; ++o) {
    for (std::size_t row = 0; row < shape.out_height(); ++row) {
      for (std::size_t column = 0; column < shape.out_width(); ++column) {
        double sum = bias[o];
        for (std::size_t i = 0; i < shape.in * taps; ++i) {
          const auto r =
              static_cast<std::ptrdiff_t>(row * shape.stride + i % taps / shape.kernel) - pad;
          const auto c =
              static_cast<std::ptrdiff_t>(column * shape.stride + i % shape.kernel) - pad;
          if (r < 0 || c < 0 || r >= height || c >= width) continue;
          const auto pixel = static_cast<std::size_t>(
              (static_cast<std::ptrdiff_t>(i / taps) * height + r) * width + c);
          sum += double{x[pixel]} * double{weight.f32()[o * shape.in * taps + i]};
        }
        y[at++] = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace sluice::kernels
