// Products of many rows in bf16 by AVX-512, where that is faster than f32. For matmul_cpu only.
//
// x is rounded to bf16 and laid out in strips of 12 rows, for all threads. A thread lays out panels
// of 32 outputs, in pairs along a row, as many as the second cache holds, and each strip meets them
// one after the other: 24 sums of 16 outputs in registers.
// Bits: a row's do not depend on how many others there are, nor on how the product is cut.
// Measured (Zen 5, one core): 575 GFLOP/s from strips and panels that lie ready, 510 with all that
// is around it; 245 in f32.
#pragma once

#include <span>

#include "kernels/finish.h"
#include "kernels/matmul.h"

namespace sluice::kernels {

/// A gated product takes rows of x whole: up to so many values.
constexpr std::size_t bf16_gated_in_most = 4096;

/// Requires: uses(Isa::bf16); a weight in bf16 or int8. `bias`: a value per output, or null.
/// Shape: x [rows, in], rounded to bf16; y [rows, out]; in <= bf16_gated_in_most where gated.
void matmul_bf16(std::span<const float> x, const Weight& weight, const float* bias,
                 std::span<float> y, std::size_t rows, const Finish& finish = {});

}  // namespace sluice::kernels
