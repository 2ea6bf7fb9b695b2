// Which roles of a workflow have to be in one process: those that share memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/spec.h"

namespace sluice {

struct TogetherRoles {
  const RoleSpec* first = nullptr;  // in the order of the workflow
  const RoleSpec* second = nullptr;
  std::string why;    // "they share 'kv' in memory"
  std::string param;  // of those: 'kv'
};

/// Why roles over a parameter have to be in one process of their machine; empty: they need not.
using WhyInOneProcess = std::function<std::string(const GlobalParamSpec&)>;

/// Each pair with each reason. Borrows the workflow.
std::vector<TogetherRoles> roles_together(const WorkflowSpec& workflow);

}  // namespace sluice
