#include <cmath>

#include "kernels/elementwise.h"

namespace sluice::kernels {

namespace {

double activated(Activation kind, double v) {
  switch (kind) {
    case Activation::silu:
      return v / (1 + std::exp(-v));
    case Activation::gelu_tanh:
      return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    case Activation::gelu_erf:
      return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
  }
  return v;
}

double or_one(std::span<const float> values, std::size_t i) {
  return values.empty() ? 1.0 : double{values[i]};
}

}  // namespace

void rms_norm_ref(std::span<const float> x, std::size_t width, std::span<const float> weight,
                  float eps, std::span<float> y) {
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += std::pow(double{x[row * width + i]}, 2);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + double{eps});
    for (std::size_t i = 0; i < width; ++i)
      y[row * width + i] =
          static_cast<float>(double{x[row * width + i]} * scale * or_one(weight, i));
  }
}

void layer_norm_ref(std::span<const float> x, std::size_t width, std::span<const float> weight,
                    std::span<const float> bias, float eps, std::span<float> y) {
  const auto count = static_cast<double>(width);
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    double mean = 0;
    double variance = 0;
    for (std::size_t i = 0; i < width; ++i) mean += double{x[row * width + i]} / count;
    for (std::size_t i = 0; i < width; ++i)
      variance += std::pow(double{x[row * width + i]} - mean, 2) / count;
    for (std::size_t i = 0; i < width; ++i)
      y[row * width + i] =
          static_cast<float>((double{x[row * width + i]} - mean) /
                                 std::sqrt(variance + double{eps}) * or_one(weight, i) +
                             (bias.empty() ? 0.0 : double{bias[i]}));
  }
}

void activate_ref(Activation kind, std::span<float> x) {
  for (float& value : x) value = static_cast<float>(activated(kind, value));
}

void gated_ref(Activation kind, std::span<const float> gate_up, std::size_t width,
               std::span<float> y) {
  for (std::size_t row = 0; row < y.size() / width; ++row)
    for (std::size_t i = 0; i < width; ++i)
      y[row * width + i] = static_cast<float>(activated(kind, gate_up[row * 2 * width + i]) *
                                              double{gate_up[row * 2 * width + width + i]});
}

void add_ref(std::span<float> x, std::span<const float> y, std::span<const float> scale) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(
        double{x[i]} + double{y[i]} * or_one(scale, i % (scale.empty() ? x.size() : scale.size())));
}

void modulate_ref(std::span<float> row, std::span<const float> scale,
                  std::span<const float> shift) {
  for (std::size_t i = 0; i < row.size(); ++i)
    row[i] = static_cast<float>(double{row[i]} * (1 + double{scale[i]}) + double{shift[i]});
}

void split_rotate_ref(const HeadShape& shape, std::span<const float> qkv,
                      std::span<const float> cosine, std::span<const float> sine,
                      std::span<float> q, std::span<float* const> k, std::span<float* const> v) {
  const std::size_t d = shape.head_dim;
  const std::size_t half = d / 2;
  for (std::size_t row = 0; row < k.size(); ++row) {
    const float* from = qkv.data() + row * shape.row();
    for (std::size_t head = 0; head < shape.heads + 2 * shape.kv_heads; ++head, from += d) {
      const bool is_query = head < shape.heads;
      const bool is_value = head >= shape.heads + shape.kv_heads;
      float* to = is_query   ? q.data() + (row * shape.heads + head) * d
                  : is_value ? v[row] + (head - shape.heads - shape.kv_heads) * d
                             : k[row] + (head - shape.heads) * d;
      for (std::size_t i = 0; i < d; ++i) to[i] = from[i];
      if (is_value || cosine.empty() || (!is_query && shape.keys_unrotated)) continue;
      for (std::size_t i = 0; i < half; ++i) {
        const double c = cosine[row * half + i];
        const double s = sine[row * half + i];
        to[i] = static_cast<float>(from[i] * c - from[i + half] * s);
        to[i + half] = static_cast<float>(from[i + half] * c + from[i] * s);
      }
    }
  }
}

}  // namespace sluice::kernels
