// Products of many rows on the processor's matrix tiles (AMX, bf16). For matmul_cpu only.
//
// Weights are tiles as they are stored, at their rows' stride; int8, odd sizes and strides that
// crowd the cache are copied first. As many rows of them as the second cache holds meet a block of
// x, which all threads share, 32 by 32. The results are the transpose of y's: they are turned and
// finished while the next ones are multiplied.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/finish.h"
#include "kernels/matmul.h"

namespace sluice::kernels {

/// A gated product takes rows of x whole: up to so many values.
constexpr std::size_t amx_gated_in_most = 2304;

/// Requires: uses(Isa::amx); a weight in bf16 or int8. `bias`: a value per output, or null.
/// Shape: x [rows, in], rounded to bf16; y [rows, out]; in <= amx_gated_in_most where gated.
void matmul_amx(std::span<const float> x, const Weight& weight, const float* bias,
                std::span<float> y, std::size_t rows, const Finish& finish = {});

}  // namespace sluice::kernels
