// `sluice plan FILE`: what the static planner made of a workflow.
#include <cstdio>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/compiled.h"
#include "graph/print.h"

namespace sluice::cli {

namespace {

int plan(const std::string& file, const std::string& format, const std::string& explained,
         const Catalog& catalog) {
  Result<Compiled> compiled = compile_file(file, catalog);
  if (!compiled.ok()) return fail(compiled.error().message);
  print_diagnostics(*compiled);
  if (!compiled->ok()) return 1;
  if (!explained.empty()) {
    const PlanNode* node = compiled->plan.find(explained);
    if (node == nullptr || node->id == entry_node) {
      std::vector<std::string_view> names;
      for (const PlanNode& known : compiled->plan.nodes) names.push_back(known.name);
      const std::string near = nearest_name(explained, names);
      return fail("no node '" + explained + "' in " + file +
                  (near.empty() ? "" : "; did you mean '" + near + "'?"));
    }
    std::fputs(explain_node(compiled->plan, *node).c_str(), stdout);
    return 0;
  }
  const std::string text = format == "json"      ? plan_json(compiled->plan)
                           : format == "dot"     ? plan_dot(compiled->plan)
                           : format == "svg"     ? plan_svg(compiled->plan)
                           : format == "mermaid" ? plan_mermaid(compiled->plan)
                                                 : plan_text(compiled->plan);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, const Catalog& catalog, Chosen& chosen) {
  struct Options {
    std::string file;
    std::string format = "text";
    std::string explained;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("plan", "Show nodes, groups, buckets and who waits for whom");
  command->add_option("file", options->file, "A workflow file (YAML)")->required();
  command->add_option("--format", options->format, "text, json, mermaid, dot or svg")
      ->check(CLI::IsMember({"text", "json", "mermaid", "dot", "svg"}));
  command->add_option("--explain", options->explained, "Say in words what makes a node run");
  command->callback([&catalog, &chosen, options] {
    chosen = [&catalog, options] {
      return plan(options->file, options->format, options->explained, catalog);
    };
  });
}

}  // namespace sluice::cli
