// `sluice plan FILE`: what the static planner made of a workflow.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/compiled.h"
#include "graph/print.h"

namespace sluice::cli {

namespace {

/// What can be explained: the first names, and how many more there are.
std::string explainable(const Plan& plan) {
  constexpr std::size_t shown_most = 20;
  std::vector<std::string> names;
  for (const PlanNode& node : plan.nodes) names.push_back(node.name);
  for (const PlanOutput& output : plan.outputs)
    names.push_back((plan.find(output.name) != nullptr ? "outputs." : "") + output.name);
  std::string all;
  for (std::size_t i = 0; i < std::min(names.size(), shown_most); ++i)
    all += (i == 0 ? "" : ", ") + names[i];
  return names.size() <= shown_most
             ? all
             : all + ", " + std::to_string(names.size() - shown_most) + " more";
}

/// A node, `inputs`, or an output (`outputs.name` when a node has its name).
Result<std::string> explain(const Plan& plan, const WorkflowSpec& spec, const std::string& wanted,
                            const std::string& file) {
  if (wanted == "inputs") return explain_inputs(plan);
  if (const PlanNode* node = plan.find(wanted)) return explain_node(plan, *node);
  const std::string prefix = "outputs.";
  const std::string name = wanted.starts_with(prefix) ? wanted.substr(prefix.size()) : wanted;
  std::vector<std::string_view> names;
  for (const PlanNode& node : plan.nodes) names.push_back(node.name);
  for (const PlanOutput& output : plan.outputs) {
    if (output.name == name) return explain_output(plan, output);
    names.push_back(output.name);
  }
  for (const RoleSpec& role : spec.roles) {
    if (role.name.text != wanted) continue;
    std::string runs;
    for (const NodeSpec& node : spec.nodes)
      if (node.role.text == wanted) runs += (runs.empty() ? "" : ", ") + node.name.text;
    return invalid_argument(
        "'" + wanted + "' is a role of " + file +
        (runs.empty() ? ", which no node runs" : ", not a node; nodes that run it: " + runs));
  }
  const std::string near = nearest_name(name, names);
  return invalid_argument(
      "no node or output '" + wanted + "' in " + file +
      (near.empty() ? "; there are " + explainable(plan) : "; did you mean '" + near + "'?"));
}

int plan(const std::string& file, const std::string& format, const std::string& explained,
         const WorkflowOptions& options, const Catalog& catalog) {
  Result<Compiled> compiled = compile_file(file, options, catalog);
  if (!compiled.ok()) return fail(compiled.error().message);
  print_diagnostics(*compiled);
  if (!compiled->ok()) return 1;
  if (compiled->loaded.spec.is_library)
    return fail(file + " has roles for other workflows to include, and nothing to plan");
  if (!explained.empty()) {
    const Result<std::string> text =
        explain(compiled->plan, compiled->loaded.spec, explained, file);
    if (!text.ok()) return fail(text.error().message);
    std::fputs(text->c_str(), stdout);
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

void add_plan(Command app, const Catalog& catalog, Chosen& chosen) {
  struct Options {
    std::string file;
    std::string format = "text";
    std::string explained;
    WorkflowOptions workflow;
  };
  auto options = std::make_shared<Options>();
  Command command =
      app.add_subcommand("plan", "Show nodes, groups, buckets and who waits for whom");
  command.add_option("file", options->file, "A workflow file (YAML)").required();
  const Option format =
      command.add_option("--format", options->format, "text, json, mermaid, dot or svg")
          .one_of({"text", "json", "mermaid", "dot", "svg"});
  command
      .add_option(
          "--explain", options->explained,
          "Say in words what makes a node run, what `inputs` brings or how an output is ordered")
      .check([](const std::string& given) {
        return given.empty() ? std::string("it needs the name of a node or an output, or `inputs`")
                             : std::string();
      })
      .excludes(format);
  add_workflow_options(command, options->workflow);
  command.callback([&catalog, &chosen, options] {
    chosen = [&catalog, options] {
      return plan(options->file, options->format, options->explained, options->workflow, catalog);
    };
  });
}

}  // namespace sluice::cli
