// GroupNorm over planes: each picture's channels are normalised in groups.
//
// Shape: x [channels, pixels] in place, weight and bias [channels]; groups divide channels.
// The reference computes in double precision. Source: Wu and He 2018.
#pragma once

#include <cstddef>
#include <span>

namespace sluice::kernels {

void group_norm_ref(std::span<float> x, std::size_t groups, std::span<const float> weight,
                    std::span<const float> bias, float eps);
void group_norm_cpu(std::span<float> x, std::size_t groups, std::span<const float> weight,
                    std::span<const float> bias, float eps);

}  // namespace sluice::kernels
