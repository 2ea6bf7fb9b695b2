// Workflows, scenarios, clusters and manifests: every place changed, and what is said of each. The
// places of diagnostics are held by the files under `errors`; here stand the words and the limits.
#include "tests/outcomes.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "graph/check.h"
#include "graph/print.h"
#include "tests/directories.h"
#include "workflows/cluster.h"
#include "workflows/load.h"
#include "workflows/load_manifest.h"
#include "workflows/load_scenario.h"

namespace sluice {
namespace {

std::string corpus(const std::string& name) {
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/tests/fuzz/corpus/" + name);
  std::string text(std::istreambuf_iterator<char>(file), {});
  REQUIRE_FALSE(text.empty());
  return text;
}

std::string text_of(const Diagnostics& diagnostics) {
  std::string text;
  for (const Diagnostic& d : diagnostics)
    text += (text.empty() ? "" : "\n") + d.code + ": " + d.message +
            (d.suggestion.empty() ? "" : " [" + d.suggestion + "]");
  return text.empty() ? "nothing is said" : text;
}

Declarations scripted() {
  PluginDeclaration plugin;
  plugin.name = "scripted";
  plugin.any_ports = true;
  plugin.global_param_kinds = {"paged_kv"};
  return {plugin};
}

constexpr const char* workflow = R"(sluice: 1
workflow: chat
inputs: { x: text, n: number }
calls: overlap
on_error: cancel
global_params:
  kv: { kind: paged_kv, page_tokens: 4096, pages: 64, kv_dtype: bf16, ssd: cache, ssd_bytes: 1MiB }
roles:
  a: { plugin: scripted, replicas: 256, balance: session, global_params: [ kv ] }
  b: { plugin: scripted, colocate: a, idempotent: true }
nodes:
  parse: { run: b.go, inputs: [ { x: inputs.x } ], outputs: [ f, g, n ], max_age: 50ms }
  both: { run: a.go, inputs: [ { f: parse.f, g: parse.g }, { f: parse.n } ], outputs: [ t ] }
  each:
    run: b.go
    inputs: [ { t: both.t } ]
    count: { t: inputs.n }
    outputs: [ z ]
    on_error: skip
    deadline: 100ms
outputs: { text: both.t, z: each.z }
limits: { deadline: 30s, frames: 1000, loop_iterations: 10 }
)";

constexpr const char* cluster = R"(cluster: 1
workflows: [ chat.yaml ]
lease: 60ms
keys: keys
registry: private
machines:
  front: { home: true, address: "tcp://10.0.0.1:5000", roles: [ ] }
  back:
    address: "tcp://10.0.0.2:5000"
    pages: "tcp://10.0.0.2:5001"
    roles: [ a, b ]
    hosts: { h: { roles: [ a, b ], memory: 1GiB, hang_after: 10ms, cores: [ 0, 1 ] } }
)";

}  // namespace

TEST_CASE("each place of a workflow that is changed is refused or read, as before") {
  test::Outcomes outcomes("workflows");
  outcomes.change_text("a workflow", workflow, [](const std::string& text) {
    LoadedWorkflow loaded = load_workflow("w.yaml", text);
    plan_workflow(loaded, scripted());
    return text_of(loaded.diagnostics);
  });
  outcomes.require_as_kept();
}

TEST_CASE("each place of a cluster's file that is changed is refused or read, as before") {
  const LoadedWorkflow loaded = load_workflow("chat.yaml", workflow);
  test::Outcomes outcomes("clusters");
  outcomes.change_text("a cluster", cluster, [&](const std::string& text) {
    LoadedCluster read = load_cluster("c.yaml", text);
    std::string words;
    if (!has_errors(read.diagnostics)) {
      const std::vector<const WorkflowSpec*> all{&loaded.spec};
      for (const auto& row : place_roles(read, all))
        for (const std::vector<std::uint32_t>& machines : row)
          for (const std::uint32_t machine : machines)
            words += (machine == machines.front() ? " " : "+") + std::to_string(machine);
    }
    return text_of(read.diagnostics) + words + (is_cluster(text) ? "" : ", not a cluster");
  });
  outcomes.require_as_kept();
}

TEST_CASE("a home of a cluster is the machine that says so, wherever it stands") {
  for (const std::uint32_t home : {0U, 1U, 2U}) {
    std::string text = "cluster: 1\nworkflows: [ chat.yaml ]\nmachines:\n";
    for (std::uint32_t i = 0; i < 3; ++i)
      text += "  m" + std::to_string(i) + ": { home: " + (i == home ? "true" : "false") +
              ", roles: [ ] }\n";
    CHECK(load_cluster("c.yaml", text).spec.homes() == std::vector<std::uint32_t>{home});
  }
}

TEST_CASE("each place of a scenario or a manifest that is changed is refused or read, as before") {
  test::Outcomes outcomes("scenarios");
  outcomes.change_text("a scenario", corpus("scenario/full.yaml"), [](const std::string& text) {
    return text_of(load_scenario("s.yaml", text).diagnostics);
  });
  outcomes.change_text("a manifest", corpus("manifest/full.yaml"), [](const std::string& text) {
    return text_of(load_manifest(text).diagnostics);
  });
  outcomes.require_as_kept();
}

}  // namespace sluice
