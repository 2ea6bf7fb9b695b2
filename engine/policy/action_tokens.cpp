#include "engine/policy/action_tokens.h"

#include <algorithm>

namespace sluice {

std::vector<float> actions_of(const Architecture& architecture, const ActionStatistics& statistics,
                              std::span<const std::int32_t> tokens) {
  std::vector<float> actions;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto end = static_cast<std::int64_t>(architecture.action_tokens_end);
    const std::int64_t bin = std::clamp<std::int64_t>(end - tokens[i] - 1, 0, 254);
    const double centre = -1 + (2 * static_cast<double>(bin) + 1) / 255;
    const std::size_t d = i % statistics.low.size();
    const double low = statistics.low[d];
    actions.push_back(static_cast<float>(
        statistics.scaled[d] ? 0.5 * (centre + 1) * (statistics.high[d] - low) + low : centre));
  }
  return actions;
}

}  // namespace sluice
