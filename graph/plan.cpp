#include "graph/plan.h"

#include <algorithm>

namespace sluice {

const PlanNode* Plan::find(std::string_view name) const {
  const auto it = std::ranges::find_if(nodes, [&](const PlanNode& n) { return n.name == name; });
  return it == nodes.end() ? nullptr : &*it;
}

}  // namespace sluice
