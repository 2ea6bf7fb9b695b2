#include "graph/plan.h"

#include <algorithm>

namespace sluice {

bool Edge::takes(std::uint64_t held) const {
  if (!direct) return (mask & held) != 0;
  return std::ranges::all_of(field_masks,
                             [held](std::uint64_t sources) { return (sources & held) != 0; });
}

const PlanNode* Plan::find(std::string_view name) const {
  const auto it = std::ranges::find_if(nodes, [&](const PlanNode& n) { return n.name == name; });
  return it == nodes.end() ? nullptr : &*it;
}

}  // namespace sluice
