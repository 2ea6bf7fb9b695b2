#include "graph/together.h"

#include <algorithm>

namespace sluice {

std::vector<TogetherRoles> roles_together(const WorkflowSpec& workflow) {
  std::vector<TogetherRoles> pairs;
  for (const RoleSpec& role : workflow.roles)
    for (const RoleSpec& other : workflow.roles) {
      if (role.colocate && role.colocate->text == other.name.text)
        pairs.push_back({&other,
                         &role,
                         "'" + role.name.text + "' is colocated with '" + other.name.text + "'",
                         {}});
      if (&other >= &role) continue;
      for (const Name& param : role.global_params)
        if (std::ranges::find(other.global_params, param.text, &Name::text) !=
            other.global_params.end())
          pairs.push_back({&other, &role, "they share '" + param.text + "' in memory", param.text});
    }
  return pairs;
}

}  // namespace sluice
