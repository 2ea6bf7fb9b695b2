#include "kernels/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace sluice::kernels {

namespace {

std::vector<float> adjusted(std::span<const float> logits, std::span<const std::int32_t> history,
                            const SampleOptions& options) {
  std::vector<float> made(logits.begin(), logits.end());
  const auto known = [&](std::int32_t token) {
    return token >= 0 && static_cast<std::size_t>(token) < made.size();
  };
  if (options.repetition_penalty != 1.0F) {
    std::vector<std::int32_t> once(history.begin(), history.end());
    std::ranges::sort(once);
    once.erase(std::unique(once.begin(), once.end()), once.end());
    for (const std::int32_t token : once) {
      if (!known(token)) continue;
      float& logit = made[static_cast<std::size_t>(token)];
      logit = logit < 0 ? logit * options.repetition_penalty : logit / options.repetition_penalty;
    }
  }
  for (const auto& [token, more] : options.bias)
    if (known(token)) made[static_cast<std::size_t>(token)] += more;
  return made;
}

/// Divides by the sum.
void normalise(std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.probability;
  for (Candidate& candidate : candidates) candidate.probability /= sum;
}

}  // namespace

std::vector<Candidate> distribution(std::span<const float> logits,
                                    std::span<const std::int32_t> history,
                                    const SampleOptions& options) {
  SLUICE_CHECK(!logits.empty());
  const std::vector<float> values = adjusted(logits, history, options);
  const auto value = [&](std::int32_t token) {
    return double{values[static_cast<std::size_t>(token)]};
  };
  if (options.temperature <= 0) {
    const auto most = std::ranges::max_element(values);
    return {{static_cast<std::int32_t>(most - values.begin()), 1.0}};
  }
  std::vector<std::int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return value(a) != value(b) ? value(a) > value(b) : a < b;
  };
  if (options.top_k > 0 && options.top_k < order.size()) {
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(options.top_k);
    std::ranges::nth_element(order, end, likelier);
    order.resize(options.top_k);
  }
  std::ranges::sort(order, likelier);
  std::vector<Candidate> candidates;
  const double most = value(order.front());
  for (const std::int32_t token : order)
    candidates.push_back({token, std::exp((value(token) - most) / double{options.temperature})});
  normalise(candidates);
  if (options.top_p < 1) {
    double held = 0;
    std::size_t count = 0;
    while (count < candidates.size() && held < double{options.top_p})
      held += candidates[count++].probability;
    candidates.resize(std::max<std::size_t>(count, 1));
    normalise(candidates);
  }
  if (options.min_p > 0) {
    const double least = candidates.front().probability * double{options.min_p};
    while (candidates.size() > 1 && candidates.back().probability < least) candidates.pop_back();
    normalise(candidates);
  }
  return candidates;
}

std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history,
                    const SampleOptions& options, double uniform) {
  // The likeliest of what the model says, as it lies: nothing is copied.
  if (options.temperature <= 0 && options.repetition_penalty == 1.0F && options.bias.empty()) {
    SLUICE_CHECK(!logits.empty());
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  }
  const std::vector<Candidate> candidates = distribution(logits, history, options);
  double left = uniform;
  for (const Candidate& candidate : candidates) {
    left -= candidate.probability;
    if (left < 0) return candidate.token;
  }
  return candidates.back().token;
}

}  // namespace sluice::kernels
