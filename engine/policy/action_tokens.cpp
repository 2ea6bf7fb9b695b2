#include "engine/policy/action_tokens.h"

#include <algorithm>
#include <array>
#include <cstdio>

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

std::string actions_text(const Architecture& architecture, std::span<const std::int32_t> tokens) {
  std::string text;
  for (const ActionStatistics& statistics : architecture.statistics) {
    if (statistics.low.size() != tokens.size()) continue;
    text += statistics.dataset + ":";
    for (const float value : actions_of(architecture, statistics, tokens)) {
      std::array<char, 32> digits{};
      std::snprintf(digits.data(), digits.size(), " %.6g", static_cast<double>(value));
      text += digits.data();
    }
    text += '\n';
  }
  return text;
}

}  // namespace sluice
