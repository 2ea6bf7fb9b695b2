// A norm of one row by a block. For *.cu only.
#pragma once

#include "kernels/cuda/grid.h"
#include "kernels/cuda/kernels.h"

namespace sluice::device {

/// What a branch adds to a hidden value.
template <typename T>
__device__ __forceinline__ float value_of(const Branch<T>& branch, std::size_t row,
                                          std::size_t column, std::size_t width) {
  float v = load(branch.rows[row * width + column]);
  if (branch.bias != nullptr) v += branch.bias[column];
  if (branch.scale != nullptr) v *= branch.scale[column];
  if (const Modulated& m = branch.modulated; m.values != nullptr)
    v *= m.values[m.of_row[row] * m.stride + 2 * width + column];
  return v;
}

/// hidden += branch, then its norm. A thread keeps the first values that it takes in registers; it
/// reads those behind them again, and only its own. `scratch`: 32 values of shared memory. `to`:
/// [width], of the device's memory or shared; may be the hidden row itself.
template <typename T, typename U>
__device__ __forceinline__ void norm_row(const Norm& norm, const Branch<T>& branch, std::size_t row,
                                         unsigned width, float* scratch, U* to) {
  constexpr unsigned kept = 8;
  const unsigned step = blockDim.x;
  float* in = norm.hidden + row * width;
  float values[kept];
  const auto take = [&](unsigned i) {
    if (branch.rows == nullptr) return in[i];
    return in[i] += value_of(branch, row, i, width);
  };
  // `first`: of the values that are taken now for the first time.
  const auto sum_of = [&](bool first, const auto& each) {
    float sum = 0;
    SLUICE_UNROLL
    for (unsigned k = 0; k < kept; ++k)
      if (const unsigned i = threadIdx.x + k * step; i < width) {
        if (first) values[k] = take(i);
        sum += each(values[k]);
      }
    for (unsigned i = threadIdx.x + kept * step; i < width; i += step)
      sum += each(first ? take(i) : in[i]);
    return block_sum(sum, scratch) / static_cast<float>(width);
  };
  const float mean = norm.rms ? 0.0F : sum_of(true, [](float v) { return v; });
  const float squares = sum_of(norm.rms, [mean](float v) { return (v - mean) * (v - mean); });
  const float factor = rsqrtf(squares + norm.eps);
  const Modulated& modulated = norm.modulated;
  const float* scale = nullptr;
  if (modulated.values != nullptr)
    scale = modulated.values + modulated.of_row[row] * modulated.stride;
  const auto put = [&](unsigned i, float value) {
    float v = (value - mean) * factor;
    if (norm.weight != nullptr) v *= norm.weight[i];
    if (norm.bias != nullptr) v += norm.bias[i];
    if (scale != nullptr) v = v * (1 + scale[i]) + scale[width + i];
    store(to + i, v);
  };
  SLUICE_UNROLL
  for (unsigned k = 0; k < kept; ++k)
    if (const unsigned i = threadIdx.x + k * step; i < width) put(i, values[k]);
  for (unsigned i = threadIdx.x + kept * step; i < width; i += step) put(i, in[i]);
}

}  // namespace sluice::device
