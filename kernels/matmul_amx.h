// Products of many rows on the processor's matrix tiles (AMX, bf16). For matmul_cpu only.
//
// Weights are taken as they are stored: 32 rows of them at a time are copied into tiles and stay
// in the cache while they meet a block of x, which all threads share. The tiles' results are the
// transpose of y's and are turned on their way out.
#pragma once

#include <optional>
#include <span>

#include "kernels/matmul.h"

namespace sluice::kernels {

/// What happens to a product on its way out.
struct Finish {
  std::optional<Activation> activation;  // not the erf form
  bool add = false;                      // to what stands in y
};

/// Requires: has_amx(); a weight in bf16 or int8. `bias`: a value per output, or null.
/// Shape: x [rows, in], rounded to bf16; y [rows, out].
void matmul_amx(std::span<const float> x, const Weight& weight, const float* bias,
                std::span<float> y, std::size_t rows, const Finish& finish = {});

}  // namespace sluice::kernels
