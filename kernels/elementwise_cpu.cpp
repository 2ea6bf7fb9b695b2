#include <cmath>
#include <cstring>

#include "kernels/elementwise.h"
#include "kernels/exp_avx512.h"
#include "kernels/parallel.h"
#include "kernels/vector_math.h"

namespace sluice::kernels {

namespace {

constexpr std::size_t lanes = 16;

[[gnu::always_inline]] inline float silu(float v) { return v / (1.0F + exp_f32(-v)); }

/// v * sigmoid(2 u) is v / 2 * (1 + tanh(u)).
[[gnu::always_inline]] inline float gelu_tanh(float v) {
  const float u = 0.7978845608028654F * (v + 0.044715F * v * v * v);
  return v / (1.0F + exp_f32(-2.0F * u));
}

[[gnu::always_inline]] inline float gelu_erf(float v) {
  return 0.5F * v * (1.0F + std::erf(v * 0.70710678118654752F));
}

SLUICE_LOOP void activate_any(Activation kind, const float* x, const float* up, float* y,
                              std::size_t count) {
  if (kind == Activation::silu)
    for (std::size_t i = 0; i < count; ++i) y[i] = silu(x[i]) * (up != nullptr ? up[i] : 1.0F);
  else
    for (std::size_t i = 0; i < count; ++i) y[i] = gelu_tanh(x[i]) * (up != nullptr ? up[i] : 1.0F);
}

#if defined(__x86_64__)
SLUICE_AVX512 void activate_avx512(Activation kind, const float* x, const float* up, float* y,
                                   std::size_t count) {
  for (std::size_t i = 0; i < count; i += lanes) {
    const __mmask16 here = count - i >= lanes ? 0xffff : tail_mask(count - i);
    __m512 v = activated16(kind, _mm512_maskz_loadu_ps(here, x + i));
    if (up != nullptr) v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(here, up + i));
    _mm512_mask_storeu_ps(y + i, here, v);
  }
}
#endif

/// y = activation(x), times `up` when there is one. Not for the erf form.
void activate_row(Activation kind, const float* x, const float* up, float* y, std::size_t count) {
#if defined(__x86_64__)
  if (uses(Isa::avx512)) return activate_avx512(kind, x, up, y, count);
#endif
  wide<activate_any>(kind, x, up, y, count);
}

void erf_gate(const float* gate, const float* up, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = gelu_erf(gate[i]) * up[i];
}

/// Values that are worth a thread.
constexpr std::size_t values_per_thread = 1 << 16;

template <typename Visit>
void each_row(std::size_t rows, std::size_t width, const Visit& visit) {
  parallel_for(rows, values_per_thread / width + 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) visit(row);
  });
}

/// The sum of f(x[i]), in sixteen independent parts.
template <typename Term>
[[gnu::always_inline]] inline float sum_of(const float* x, std::size_t count, Term term) {
  float sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) sums[j] += term(x[i + j]);
  float sum = 0;
  for (; i < count; ++i) sum += term(x[i]);
  for (const float part : sums) sum += part;
  return sum;
}

SLUICE_LOOP float sum_squares(const float* x, std::size_t count, float mean) {
  return sum_of(x, count, [mean](float v) { return (v - mean) * (v - mean); });
}
SLUICE_LOOP float sum_values(const float* x, std::size_t count) {
  return sum_of(x, count, [](float v) { return v; });
}
SLUICE_LOOP void scale_row(const float* x, float mean, float scale, const float* weight,
                           const float* bias, float* y, std::size_t count) {
  if (weight == nullptr)
    for (std::size_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * scale;
  else if (bias == nullptr)
    for (std::size_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * scale * weight[i];
  else
    for (std::size_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

SLUICE_LOOP void add_all(float* x, const float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] += y[i];
}
SLUICE_LOOP void add_scaled(float* x, const float* y, const float* scale, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] += y[i] * scale[i];
}
SLUICE_LOOP void modulate_row(float* x, const float* scale, const float* shift, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] = x[i] * (1.0F + scale[i]) + shift[i];
}

SLUICE_LOOP void rotate(const float* from, const float* cosine, const float* sine, float* to,
                        std::size_t half) {
  for (std::size_t i = 0; i < half; ++i) {
    const float a = from[i];
    const float b = from[i + half];
    to[i] = a * cosine[i] - b * sine[i];
    to[i + half] = b * cosine[i] + a * sine[i];
  }
}

}  // namespace

void rms_norm_cpu(std::span<const float> x, std::size_t width, std::span<const float> weight,
                  float eps, std::span<float> y) {
  const float* w = weight.empty() ? nullptr : weight.data();
  each_row(x.size() / width, width, [&](std::size_t row) {
    const float* from = &x[row * width];
    const float mean_square = wide<sum_squares>(from, width, 0.0F) / static_cast<float>(width);
    wide<scale_row>(from, 0.0F, 1.0F / std::sqrt(mean_square + eps), w, nullptr, &y[row * width],
                    width);
  });
}

void layer_norm_cpu(std::span<const float> x, std::size_t width, std::span<const float> weight,
                    std::span<const float> bias, float eps, std::span<float> y) {
  const float* w = weight.empty() ? nullptr : weight.data();
  const float* b = bias.empty() ? nullptr : bias.data();
  const auto count = static_cast<float>(width);
  each_row(x.size() / width, width, [&](std::size_t row) {
    const float* from = &x[row * width];
    const float mean = wide<sum_values>(from, width) / count;
    const float variance = wide<sum_squares>(from, width, mean) / count;
    wide<scale_row>(from, mean, 1.0F / std::sqrt(variance + eps), w, b, &y[row * width], width);
  });
}

void activate_cpu(Activation kind, std::span<float> x) {
  parallel_for(x.size(), values_per_thread, [&](std::size_t begin, std::size_t end) {
    if (kind != Activation::gelu_erf)
      return activate_row(kind, &x[begin], nullptr, &x[begin], end - begin);
    for (std::size_t i = begin; i < end; ++i) x[i] = gelu_erf(x[i]);
  });
}

void gated_cpu(Activation kind, std::span<const float> gate_up, std::size_t width,
               std::span<float> y) {
  each_row(y.size() / width, width, [&](std::size_t row) {
    const float* gate = gate_up.data() + row * 2 * width;
    float* to = y.data() + row * width;
    if (kind == Activation::gelu_erf) return erf_gate(gate, gate + width, to, width);
    activate_row(kind, gate, gate + width, to, width);
  });
}

void add_cpu(std::span<float> x, std::span<const float> y, std::span<const float> scale) {
  if (scale.empty()) return wide<add_all>(x.data(), y.data(), x.size());
  for (std::size_t at = 0; at < x.size(); at += scale.size())
    wide<add_scaled>(&x[at], &y[at], scale.data(), scale.size());
}

void modulate_cpu(std::span<float> row, std::span<const float> scale,
                  std::span<const float> shift) {
  wide<modulate_row>(row.data(), scale.data(), shift.data(), row.size());
}

void split_rotate_cpu(const HeadShape& shape, std::span<const float> qkv,
                      std::span<const float> cosine, std::span<const float> sine,
                      std::span<float> q, std::span<float* const> k, std::span<float* const> v) {
  const std::size_t d = shape.head_dim;
  const std::size_t half = d / 2;
  const std::size_t kv_row = shape.kv_heads * d;
  each_row(k.size(), shape.row(), [&](std::size_t row) {
    const float* from = qkv.data() + row * shape.row();
    float* to_q = q.data() + row * shape.heads * d;
    if (kv_row != 0) std::memcpy(v[row], from + shape.heads * d + kv_row, kv_row * sizeof(float));
    if (cosine.empty()) {
      std::memcpy(to_q, from, shape.heads * d * sizeof(float));
      if (kv_row != 0) std::memcpy(k[row], from + shape.heads * d, kv_row * sizeof(float));
      return;
    }
    const float* c = cosine.data() + row * half;
    const float* s = sine.data() + row * half;
    for (std::size_t head = 0; head < shape.heads; ++head)
      wide<rotate>(from + head * d, c, s, to_q + head * d, half);
    if (shape.keys_unrotated && kv_row != 0)
      std::memcpy(k[row], from + shape.heads * d, kv_row * sizeof(float));
    for (std::size_t head = 0; head < shape.kv_heads && !shape.keys_unrotated; ++head)
      wide<rotate>(from + (shape.heads + head) * d, c, s, k[row] + head * d, half);
  });
}

}  // namespace sluice::kernels
