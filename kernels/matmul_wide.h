// Products of many rows over weights in bf16 or int8, multiplied in f32 by AVX-512. For matmul_cpu
// only.
//
// x is rounded to bf16, as the format says, and what is multiplied is widened while it is laid out:
// 12 rows meet 32 outputs in registers, and what follows a product is done on its way out.
// Bits: a row's do not depend on how many others there are, nor on how the product is cut.
#pragma once

#include <span>

#include "kernels/finish.h"
#include "kernels/matmul.h"

namespace sluice::kernels {

/// A gated product takes rows of x whole: up to so many values.
constexpr std::size_t wide_gated_in_most = 4096;

/// Requires: uses(Isa::avx512); a weight in bf16 or int8. `bias`: a value per output, or null.
/// Shape: x [rows, in], rounded to bf16; y [rows, out]; in <= wide_gated_in_most where gated.
void matmul_wide(std::span<const float> x, const Weight& weight, const float* bias,
                 std::span<float> y, std::size_t rows, const Finish& finish = {});

}  // namespace sluice::kernels
