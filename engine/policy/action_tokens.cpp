#include "engine/policy/action_tokens.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace sluice {

namespace {

std::string names_of(const std::vector<ActionStatistics>& all) {
  constexpr std::size_t named_most = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(all.size(), named_most); ++i)
    names += (i == 0 ? "" : ", ") + all[i].dataset;
  if (all.size() > named_most) names += " and " + std::to_string(all.size() - named_most) + " more";
  return names;
}

}  // namespace

Result<const ActionStatistics*> statistics_named(const Architecture& architecture,
                                                 std::string_view dataset) {
  const std::vector<ActionStatistics>& all = architecture.statistics;
  if (all.empty())
    return invalid_argument(
        "the checkpoint has no statistics of actions, so nobody knows what its bins mean to a "
        "robot: `norm_stats` of its config.json, or a dataset_statistics.json beside it");
  if (dataset.empty() && all.size() > 1)
    return invalid_argument(
        "the checkpoint has statistics of several data sets: say which with "
        "`statistics`; there are " +
        names_of(all));
  const auto found =
      dataset.empty() ? all.begin() : std::ranges::find(all, dataset, &ActionStatistics::dataset);
  if (found == all.end())
    return invalid_argument("the checkpoint has no statistics of '" + std::string(dataset) +
                            "'; there are " + names_of(all));
  if (found->low.empty())
    return invalid_argument("the statistics of '" + found->dataset +
                            "' have no values: action.q01 and action.q99 are empty");
  return &*found;
}

std::size_t words_among(const Architecture& architecture, std::span<const std::int32_t> tokens) {
  const auto end = static_cast<std::int64_t>(architecture.action_tokens_end);
  const auto bins = static_cast<std::int64_t>(architecture.action_bins);
  return static_cast<std::size_t>(std::ranges::count_if(
      tokens, [&](std::int32_t token) { return token >= end || token < end - bins; }));
}

std::vector<float> actions_of(const Architecture& architecture, const ActionStatistics& statistics,
                              std::span<const std::int32_t> tokens) {
  std::vector<float> actions;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto end = static_cast<std::int64_t>(architecture.action_tokens_end);
    // Between so many edges there is a centre less.
    const auto centres = static_cast<std::int64_t>(architecture.action_bins) - 1;
    const std::int64_t bin = std::clamp<std::int64_t>(end - tokens[i] - 1, 0, centres - 1);
    const double centre = -1 + (2 * static_cast<double>(bin) + 1) / static_cast<double>(centres);
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
