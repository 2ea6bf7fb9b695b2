#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/group_norm.h"
#include "kernels/parallel.h"
#include "kernels/vector_math.h"

namespace sluice::kernels {

namespace {

/// Values that are summed in f32 before the sum goes to double: keeps the error of a plane of a
/// million pixels as small as that of a row.
constexpr std::size_t run = 1024;

SLUICE_LOOP float sum_of(const float* x, std::size_t count) {
  float sums[16] = {};
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (std::size_t lane = 0; lane < 16; ++lane) sums[lane] += x[i + lane];
  float sum = 0;
  for (const float s : sums) sum += s;
  for (; i < count; ++i) sum += x[i];
  return sum;
}

SLUICE_LOOP float squares_of(const float* x, float mean, std::size_t count) {
  float sums[16] = {};
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (std::size_t lane = 0; lane < 16; ++lane) {
      const float d = x[i + lane] - mean;
      sums[lane] += d * d;
    }
  float sum = 0;
  for (const float s : sums) sum += s;
  for (; i < count; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

/// The mean goes first: taken off together with the bias it would cancel what is left.
SLUICE_LOOP void rescale(float* x, float mean, float scale, float bias, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] = (x[i] - mean) * scale + bias;
}

}  // namespace

void group_norm_cpu(std::span<float> x, std::size_t groups, std::span<const float> weight,
                    std::span<const float> bias, float eps) {
  const std::size_t channels = weight.size();
  SLUICE_CHECK(
      groups != 0 && channels % groups == 0 && bias.size() == channels && x.size() % channels == 0,
      "GroupNorm sizes do not fit");
  const std::size_t pixels = x.size() / channels;
  const std::size_t count = x.size() / groups;
  parallel_for(groups, (1 << 14) / (count + 1) + 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t g = begin; g < end; ++g) {
      float* group = x.data() + g * count;
      double sum = 0;
      double squares = 0;
      for (std::size_t i = 0; i < count; i += run)
        sum += double{wide<sum_of>(group + i, std::min(run, count - i))};
      const double mean = sum / static_cast<double>(count);
      for (std::size_t i = 0; i < count; i += run)
        squares +=
            double{wide<squares_of>(group + i, static_cast<float>(mean), std::min(run, count - i))};
      const double factor = 1 / std::sqrt(squares / static_cast<double>(count) + double{eps});
      for (std::size_t i = 0; i < count / pixels; ++i) {
        const std::size_t channel = g * (channels / groups) + i;
        wide<rescale>(group + i * pixels, static_cast<float>(mean),
                      static_cast<float>(factor * double{weight[channel]}), bias[channel], pixels);
      }
    }
  });
}

}  // namespace sluice::kernels
