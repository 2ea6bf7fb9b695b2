#include "cli/workflow_options.h"

namespace sluice::cli {

std::vector<Override> WorkflowOptions::overrides() const {
  std::vector<Override> overrides;
  for (const std::string& text : set) overrides.push_back(parse_override(text).value());
  return overrides;
}

void add_workflow_options(Command command, WorkflowOptions& options) {
  command
      .add_option("--set", options.set,
                  "In place of what the file says, as in roles.llm.replicas=2; may be repeated")
      .type_name("PATH=VALUE")
      .repeated()
      .check([](const std::string& text) {
        const Result<Override> override = parse_override(text);
        return override.ok() ? std::string() : override.error().message;
      });
}

}  // namespace sluice::cli
