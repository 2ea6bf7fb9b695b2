#include "cli/workflow_options.h"

#include <string>

namespace sluice::cli {

void add_workflow_options(CLI::App& command, WorkflowOptions& options) {
  command
      .add_option_function<std::vector<std::string>>(
          "--set",
          [&options](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              Result<Override> override = parse_override(text);
              if (!override.ok()) throw CLI::ValidationError("--set", override.error().message);
              options.overrides.push_back(std::move(override).value());
            }
          },
          "In place of what the file says, as in roles.llm.replicas=2; may be repeated")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace sluice::cli
