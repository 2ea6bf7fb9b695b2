// A workflow, and what is wrong with a cluster file of it: for tests of cluster files.
#pragma once

#include <string>

#include "graph/print.h"
#include "workflows/cluster.h"
#include "workflows/load.h"

namespace sluice {

inline constexpr const char* workflow_text = R"(
sluice: 1
workflow: two
inputs: { x: text }
global_params: { kv: { kind: paged_kv } }
roles:
  ear:  { plugin: scripted }
  mind: { plugin: scripted, global_params: [ kv ] }
  hand: { plugin: scripted, global_params: [ kv ] }
  eye:  { plugin: scripted, colocate: ear }
nodes:
  a: { run: ear.a, inputs: [ { x: inputs.x } ], outputs: [ v ] }
outputs: { out: a.v }
)";

/// Each mistake as `line:column code`, in their order.
inline std::string all_mistakes(const std::string& text) {
  LoadedCluster loaded = load_cluster("c.yaml", text);
  const LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
  const WorkflowSpec* specs[] = {&workflow.spec};
  if (loaded.all_workflows) place_roles(loaded, specs);
  sort_diagnostics(loaded.diagnostics);
  std::string all;
  for (const Diagnostic& d : loaded.diagnostics)
    all += (all.empty() ? "" : ", ") + std::to_string(d.mark.line) + ":" +
           std::to_string(d.mark.column) + " " + d.code;
  return all;
}

/// The first mistake as `line:column code message | suggestion`; empty: none.
inline std::string mistake(const std::string& text, const WhyNotShared& why_not = {},
                           const WhyInOneProcess& why_in_one = {}) {
  LoadedCluster loaded = load_cluster("c.yaml", text);
  const LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
  const WorkflowSpec* specs[] = {&workflow.spec};
  if (!has_errors(loaded.diagnostics)) place_roles(loaded, specs, why_not, {}, why_in_one);
  sort_diagnostics(loaded.diagnostics);
  if (loaded.diagnostics.empty()) return "";
  const Diagnostic& d = loaded.diagnostics.front();
  return std::to_string(d.mark.line) + ":" + std::to_string(d.mark.column) + " " + d.code + " " +
         d.message + " | " + d.suggestion;
}

inline std::string with_machines(const std::string& machines, const std::string& more = "") {
  return "cluster: 1\nworkflows: [ two.yaml ]\n" + more + "machines:\n" + machines;
}

}  // namespace sluice
