// Chooses the next token from one row of logits.
//
// Order: temperature, then the `top_k` most likely, then the smallest set that holds `top_p` of the
// probability. Temperature 0 is greedy. Deterministic: the random number is an argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::kernels {

struct SampleOptions {
  float temperature = 0;  // 0: greedy
  std::size_t top_k = 0;  // 0: all
  float top_p = 1;        // 1: all
};

/// `uniform` in [0, 1). Requires: logits is not empty. Ties go to the lower token.
std::int32_t sample(std::span<const float> logits, const SampleOptions& options, double uniform);

}  // namespace sluice::kernels
