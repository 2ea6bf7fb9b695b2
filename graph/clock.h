// Whose engines have to know what time it is. Pure.
#pragma once

#include <algorithm>

#include "graph/plan.h"

namespace sluice {

/// A node with a deadline or an age; and one that may run without any input (`count: { x: 0 }`),
/// where some node asks for the age of what it makes.
inline bool reads_clock(const Plan& plan, const PlanNode& node) {
  if (node.deadline.count() != 0 || node.max_age.count() != 0) return true;
  const auto has_age = [](const PlanNode& one) { return one.max_age.count() != 0; };
  const auto counts = [](const PlanGroup& group) { return !group.counts.empty(); };
  return std::ranges::any_of(node.groups, counts) && std::ranges::any_of(plan.nodes, has_age);
}

}  // namespace sluice
