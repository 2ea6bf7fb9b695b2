#include "kernels/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace sluice::kernels {

std::int32_t sample(std::span<const float> logits, const SampleOptions& options, double uniform) {
  SLUICE_CHECK(!logits.empty());
  if (options.temperature <= 0)
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  if (options.top_k > 0 && options.top_k < order.size()) order.resize(options.top_k);
  std::vector<double> weight;
  const double most = logits[static_cast<std::size_t>(order.front())];
  for (const std::int32_t token : order)
    weight.push_back(std::exp((double{logits[static_cast<std::size_t>(token)]} - most) /
                              double{options.temperature}));
  double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
  double held = 0;
  std::size_t count = 0;
  while (count < weight.size() && held < double{options.top_p} * sum) held += weight[count++];
  count = std::max<std::size_t>(count, 1);
  sum = std::accumulate(weight.begin(), weight.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
  double left = uniform * sum;
  for (std::size_t i = 0; i < count; ++i) {
    left -= weight[i];
    if (left < 0) return order[i];
  }
  return order[count - 1];
}

}  // namespace sluice::kernels
