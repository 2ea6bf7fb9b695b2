#include "graph/check_meant.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>

namespace sluice {

namespace {

/// The fields and their sources, in any order.
std::set<std::pair<std::string, std::string>> content_of(const GroupSpec& group) {
  std::set<std::pair<std::string, std::string>> content;
  for (const FieldSpec& field : group.fields)
    for (const FieldRef& source : field.sources)
      content.emplace(field.field.text, source.node + "." + source.field);
  return content;
}

void check_groups(const NodeSpec& node, Diagnostics& diagnostics) {
  std::set<std::set<std::pair<std::string, std::string>>> seen;
  for (const GroupSpec& group : node.groups)
    if (!seen.insert(content_of(group)).second)
      report(diagnostics, {Severity::warning, group.mark, "same-group",
                           "node '" + node.name.text +
                               "' has this group already, so it runs twice for what comes to it",
                           "remove one of them"});
}

void check_times(const NodeSpec& node, const WorkflowLimits& limits, Diagnostics& diagnostics) {
  const auto check = [&](std::chrono::milliseconds time, Mark mark, const char* code,
                         const char* has, const char* remove) {
    if (time <= limits.deadline) return;
    report(diagnostics,
           {Severity::warning, mark, code,
            "node '" + node.name.text + "' " + has + " " + std::to_string(time.count()) +
                " ms, and its call ends after " + std::to_string(limits.deadline.count()) + " ms",
            std::string("give the call more time (limits: deadline), or ") + remove});
  };
  check(node.deadline, node.deadline_mark, "idle-deadline", "has a deadline of",
        "remove the node's");
  check(node.max_age, node.max_age_mark, "idle-max-age", "drops what is older than",
        "remove `max_age`");
}

}  // namespace

void check_meant(const WorkflowSpec& spec, Diagnostics& diagnostics) {
  for (const NodeSpec& node : spec.nodes) {
    check_groups(node, diagnostics);
    check_times(node, spec.limits, diagnostics);
  }
  if (spec.is_library) return;
  for (const GlobalParamSpec& param : spec.global_params) {
    const bool listed = std::ranges::any_of(spec.roles, [&](const RoleSpec& role) {
      return std::ranges::find(role.global_params, param.name.text, &Name::text) !=
             role.global_params.end();
    });
    if (!listed && param.included_from.empty())
      report(diagnostics, {Severity::warning, param.name.mark, "unused-global-param",
                           "no role lists the global parameter '" + param.name.text + "'",
                           "name it in a role's `global_params`, or remove it"});
  }
}

}  // namespace sluice
