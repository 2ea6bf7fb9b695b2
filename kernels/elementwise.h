// Norms, activations, adaptive modulation and rotary positions: what stands between the products.
//
// Shape: rows of `width` values, row-major, in place where one span is given.
// References compute in double precision; the fast versions in f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::kernels {

/// y = x / sqrt(mean(x^2) + eps) * weight, per row of `width`. No weight: 1.
/// Source: Zhang and Sennrich 2019.
void rms_norm_ref(std::span<const float> x, std::size_t width, std::span<const float> weight,
                  float eps, std::span<float> y);
void rms_norm_cpu(std::span<const float> x, std::size_t width, std::span<const float> weight,
                  float eps, std::span<float> y);

/// y = (x - mean) / sqrt(variance + eps) * weight + bias, per row of `width`. Neither given: 1, 0.
void layer_norm_ref(std::span<const float> x, std::size_t width, std::span<const float> weight,
                    std::span<const float> bias, float eps, std::span<float> y);
void layer_norm_cpu(std::span<const float> x, std::size_t width, std::span<const float> weight,
                    std::span<const float> bias, float eps, std::span<float> y);

enum class Activation : std::uint8_t { silu, gelu_tanh, gelu_erf };

void activate_ref(Activation kind, std::span<float> x);
void activate_cpu(Activation kind, std::span<float> x);

/// y = activation(gate) * up. Shape: gate_up [rows, 2 * width], gate first; y [rows, width].
void gated_ref(Activation kind, std::span<const float> gate_up, std::size_t width,
               std::span<float> y);
void gated_cpu(Activation kind, std::span<const float> gate_up, std::size_t width,
               std::span<float> y);

/// x += y, or x += y * scale for a scale per column.
void add_ref(std::span<float> x, std::span<const float> y, std::span<const float> scale = {});
void add_cpu(std::span<float> x, std::span<const float> y, std::span<const float> scale = {});

/// row = row * (1 + scale) + shift: what an adaptive norm does after it has normalised.
/// Source: Peebles and Xie 2023 (adaLN); openpi for the RMS form.
void modulate_ref(std::span<float> row, std::span<const float> scale, std::span<const float> shift);
void modulate_cpu(std::span<float> row, std::span<const float> scale, std::span<const float> shift);

/// Where the heads of one fused projection go.
struct HeadShape {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
  bool keys_unrotated = false;
  std::size_t row() const { return (heads + 2 * kv_heads) * head_dim; }
};

/// Splits rows of [q | k | v], rotates q and k half-split (x[i] with x[i + head_dim/2]) and writes
/// them: q to [rows, heads * head_dim], row r's keys to `k[r]`, its values to `v[r]` (kv_heads *
/// head_dim values each). Shape: cosine, sine [rows, head_dim / 2]; empty: no rotation.
/// `HeadShape::keys_unrotated`: keys are written as they are.
/// Source: Su et al. 2021, in the layout of Hugging Face checkpoints.
void split_rotate_ref(const HeadShape& shape, std::span<const float> qkv,
                      std::span<const float> cosine, std::span<const float> sine,
                      std::span<float> q, std::span<float* const> k, std::span<float* const> v);
void split_rotate_cpu(const HeadShape& shape, std::span<const float> qkv,
                      std::span<const float> cosine, std::span<const float> sine,
                      std::span<float> q, std::span<float* const> k, std::span<float* const> v);

}  // namespace sluice::kernels
