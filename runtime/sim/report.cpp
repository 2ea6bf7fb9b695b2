#include "runtime/sim/cluster.h"
#include "runtime/sim/simulation.h"

namespace sluice::sim {

std::uint64_t CallReport::hash() const {
  std::uint64_t hash = firings_hash;
  for (const std::uint64_t count : outputs) hash = mixed(hash, count);
  for (const std::string& warning : warnings)
    for (const char c : warning) hash = mixed(hash, static_cast<unsigned char>(c));
  if (!failure) return hash;
  hash = mixed(
      hash, (std::uint64_t{failure->node} << 8U) + static_cast<std::uint64_t>(failure->kind) + 1);
  for (const char c : failure->error.message) hash = mixed(hash, static_cast<unsigned char>(c));
  return hash;
}

std::uint64_t loop_events(const Plan& plan) {
  constexpr std::uint64_t each = 6, most = 45'000'000;
  const std::uint64_t frames = std::min<std::uint64_t>(
      static_cast<std::uint64_t>(std::max<std::int64_t>(plan.limits.frames, 0)), most);
  const auto counted =
      static_cast<std::uint64_t>(std::ranges::count(plan.nodes, true, &PlanNode::frames_counted));
  return std::min(most, each * frames * counted);
}

}  // namespace sluice::sim
