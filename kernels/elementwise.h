// Norms, activations and rotary positions: what stands between the products.
//
// Shape: rows of `width` values, row-major, in place where one span is given.
// Norms take mean and variance in f32 pairs of double precision on the reference path.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::kernels {

/// y = x / sqrt(mean(x^2) + eps) * weight, per row. Source: Zhang and Sennrich 2019.
void rms_norm_ref(std::span<const float> x, std::span<const float> weight, float eps,
                  std::span<float> y);
void rms_norm_cpu(std::span<const float> x, std::span<const float> weight, float eps,
                  std::span<float> y);

/// y = (x - mean) / sqrt(variance + eps) * weight + bias, per row.
void layer_norm_ref(std::span<const float> x, std::span<const float> weight,
                    std::span<const float> bias, float eps, std::span<float> y);
void layer_norm_cpu(std::span<const float> x, std::span<const float> weight,
                    std::span<const float> bias, float eps, std::span<float> y);

/// The tanh form of GELU.
void gelu_tanh_ref(std::span<float> x);
void gelu_tanh_cpu(std::span<float> x);

/// x = x * sigmoid(x).
void silu_ref(std::span<float> x);
void silu_cpu(std::span<float> x);

/// Rotates each head of each row to its position, half-split (x[i] with x[i + head_dim/2]).
/// Shape: x [positions.size(), heads, head_dim].
void rope_ref(std::span<float> x, std::span<const std::int32_t> positions, std::size_t heads,
              std::size_t head_dim, double theta);
void rope_cpu(std::span<float> x, std::span<const std::int32_t> positions, std::size_t heads,
              std::size_t head_dim, double theta);

}  // namespace sluice::kernels
