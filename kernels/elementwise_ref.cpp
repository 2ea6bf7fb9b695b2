#include <cmath>
#include <vector>

#include "kernels/elementwise.h"

namespace sluice::kernels {

void rms_norm_ref(std::span<const float> x, std::span<const float> weight, float eps,
                  std::span<float> y) {
  const std::size_t width = weight.size();
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += std::pow(double{x[row * width + i]}, 2);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + double{eps});
    for (std::size_t i = 0; i < width; ++i)
      y[row * width + i] =
          static_cast<float>(double{x[row * width + i]} * scale * double{weight[i]});
  }
}

void layer_norm_ref(std::span<const float> x, std::span<const float> weight,
                    std::span<const float> bias, float eps, std::span<float> y) {
  const std::size_t width = weight.size();
  const auto count = static_cast<double>(width);
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    double mean = 0;
    double variance = 0;
    for (std::size_t i = 0; i < width; ++i) mean += double{x[row * width + i]} / count;
    for (std::size_t i = 0; i < width; ++i)
      variance += std::pow(double{x[row * width + i]} - mean, 2) / count;
    for (std::size_t i = 0; i < width; ++i)
      y[row * width + i] = static_cast<float>((double{x[row * width + i]} - mean) /
                                                  std::sqrt(variance + double{eps}) *
                                                  double{weight[i]} +
                                              double{bias[i]});
  }
}

void gelu_tanh_ref(std::span<float> x) {
  for (float& value : x) {
    const double v = value;
    value = static_cast<float>(
        0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))));
  }
}

void silu_ref(std::span<float> x) {
  for (float& value : x) {
    const double v = value;
    value = static_cast<float>(v / (1 + std::exp(-v)));
  }
}

void rope_ref(std::span<float> x, std::span<const std::int32_t> positions, std::size_t heads,
              std::size_t head_dim, double theta) {
  const std::size_t half = head_dim / 2;
  for (std::size_t row = 0; row < positions.size(); ++row) {
    for (std::size_t head = 0; head < heads; ++head) {
      float* at = x.data() + (row * heads + head) * head_dim;
      for (std::size_t i = 0; i < half; ++i) {
        const double angle =
            positions[row] *
            std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
        const double a = at[i];
        const double b = at[i + half];
        at[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
        at[i + half] = static_cast<float>(b * std::cos(angle) + a * std::sin(angle));
      }
    }
  }
}

}  // namespace sluice::kernels
