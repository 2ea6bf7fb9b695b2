#include <cmath>

#include "kernels/group_norm.h"

namespace sluice::kernels {

void group_norm_ref(std::span<float> x, std::size_t groups, std::span<const float> weight,
                    std::span<const float> bias, float eps) {
  const std::size_t pixels = x.size() / weight.size();
  const std::size_t count = x.size() / groups;
  for (std::size_t g = 0; g < groups; ++g) {
    const auto group = x.subspan(g * count, count);
    double mean = 0;
    double variance = 0;
    for (const float v : group) mean += double{v} / static_cast<double>(count);
    for (const float v : group) variance += std::pow(double{v} - mean, 2);
    const double factor = 1 / std::sqrt(variance / static_cast<double>(count) + double{eps});
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t channel = (g * count + i) / pixels;
      group[i] = static_cast<float>((double{group[i]} - mean) * factor * double{weight[channel]} +
                                    double{bias[channel]});
    }
  }
}

}  // namespace sluice::kernels
