// Activation functions as kernels compute them. For *.cu only.
#pragma once

#include "kernels/cuda/grid.h"
#include "kernels/elementwise.h"

namespace sluice::device {

__device__ __forceinline__ float activated(kernels::Activation kind, float x) {
  if (kind == kernels::Activation::silu) return x / (1 + __expf(-x));
  if (kind == kernels::Activation::gelu_erf) return 0.5F * x * (1 + erff(x * 0.70710678118654752F));
  return 0.5F * x * (1 + tanhf(0.79788456080286536F * (x + 0.044715F * x * x * x)));
}

}  // namespace sluice::device
