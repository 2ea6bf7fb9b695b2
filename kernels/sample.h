// Chooses the next token from one row of logits.
//
// Order, as Hugging Face's processors and warpers: repetition penalty, bias, temperature, then the
// `top_k` most likely, the smallest set that holds `top_p` of the probability, and those not below
// `min_p` of the likeliest. Temperature 0 is greedy. Deterministic: the random number is an
// argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice::kernels {

struct SampleOptions {
  float temperature = 0;         // 0: greedy
  std::size_t top_k = 0;         // 0: all
  float top_p = 1;               // 1: all
  float min_p = 0;               // 0: all
  float repetition_penalty = 1;  // 1: none; divides what is likely, multiplies what is not
  std::vector<std::pair<std::int32_t, float>> bias{};  // added to a token's logit
};

/// A token that may be chosen.
struct Candidate {
  std::int32_t token = 0;
  double probability = 0;
};

/// The distribution that is drawn from, likeliest first; ties go to the lower token. `history`: the
/// tokens so far, for the penalty. Requires: logits is not empty.
std::vector<Candidate> distribution(std::span<const float> logits,
                                    std::span<const std::int32_t> history,
                                    const SampleOptions& options);

/// `uniform` in [0, 1).
std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history,
                    const SampleOptions& options, double uniform);

}  // namespace sluice::kernels
