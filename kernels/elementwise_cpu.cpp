#include <cmath>
#include <vector>

#include "kernels/elementwise.h"

namespace sluice::kernels {

void rms_norm_cpu(std::span<const float> x, std::span<const float> weight, float eps,
                  std::span<float> y) {
  const std::size_t width = weight.size();
  for (std::size_t start = 0; start + width <= x.size(); start += width) {
    float squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += x[start + i] * x[start + i];
    const float scale = 1.0F / std::sqrt(squares / static_cast<float>(width) + eps);
    for (std::size_t i = 0; i < width; ++i) y[start + i] = x[start + i] * scale * weight[i];
  }
}

void layer_norm_cpu(std::span<const float> x, std::span<const float> weight,
                    std::span<const float> bias, float eps, std::span<float> y) {
  const std::size_t width = weight.size();
  const float inverse = 1.0F / static_cast<float>(width);
  for (std::size_t start = 0; start + width <= x.size(); start += width) {
    float mean = 0;
    for (std::size_t i = 0; i < width; ++i) mean += x[start + i];
    mean *= inverse;
    float squares = 0;
    for (std::size_t i = 0; i < width; ++i)
      squares += (x[start + i] - mean) * (x[start + i] - mean);
    const float scale = 1.0F / std::sqrt(squares * inverse + eps);
    for (std::size_t i = 0; i < width; ++i)
      y[start + i] = (x[start + i] - mean) * scale * weight[i] + bias[i];
  }
}

void gelu_tanh_cpu(std::span<float> x) {
  constexpr float c = 0.7978845608028654F;
  for (float& v : x) v = 0.5F * v * (1.0F + std::tanh(c * (v + 0.044715F * v * v * v)));
}

void silu_cpu(std::span<float> x) {
  for (float& v : x) v = v / (1.0F + std::exp(-v));
}

void rope_cpu(std::span<float> x, std::span<const std::int32_t> positions, std::size_t heads,
              std::size_t head_dim, double theta) {
  const std::size_t half = head_dim / 2;
  std::vector<double> frequency(half);
  for (std::size_t i = 0; i < half; ++i)
    frequency[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  std::vector<float> cosine(half);
  std::vector<float> sine(half);
  for (std::size_t row = 0; row < positions.size(); ++row) {
    for (std::size_t i = 0; i < half; ++i) {
      cosine[i] = static_cast<float>(std::cos(positions[row] * frequency[i]));
      sine[i] = static_cast<float>(std::sin(positions[row] * frequency[i]));
    }
    for (std::size_t head = 0; head < heads; ++head) {
      float* at = x.data() + (row * heads + head) * head_dim;
      for (std::size_t i = 0; i < half; ++i) {
        const float a = at[i];
        const float b = at[i + half];
        at[i] = a * cosine[i] - b * sine[i];
        at[i + half] = b * cosine[i] + a * sine[i];
      }
    }
  }
}

}  // namespace sluice::kernels
