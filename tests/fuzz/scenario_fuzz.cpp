// Any bytes as a scenario: read, bound to a plan and, when small, run; or refused with places.
#include <cstdint>
#include <string_view>

#include "graph/check.h"
#include "graph/print.h"
#include "runtime/sim/simulation.h"
#include "workflows/load.h"
#include "workflows/load_scenario.h"

using namespace sluice;

namespace {

constexpr const char* workflow = R"(
sluice: 1
workflow: fuzz
inputs: { x: text, y: text }
roles: { a: { plugin: scripted, replicas: 2 }, talk: { plugin: scripted, balance: session } }
nodes:
  parse: { run: a.go, inputs: [ { x: inputs.x } ], outputs: [text, image, n] }
  see: { run: a.go, inputs: [ { image: parse.image } ], outputs: [f] }
  both: { run: talk.go, inputs: [ { t: parse.text, f: see.f } ], outputs: [token] }
  draw:
    run: talk.go
    inputs: [ { p: both.token, c: see.f } ]
    count: { p: 1, c: parse.n }
    outputs: [z]
outputs: { text: both.token, image: draw.z }
limits: { loop_iterations: 4, frames: 100 }
)";

const Plan& plan() {
  static const Plan compiled = [] {
    PluginDeclaration scripted;
    scripted.name = "scripted";
    scripted.any_ports = true;
    LoadedWorkflow loaded = load_workflow("w.yaml", workflow);
    check(loaded.spec, {scripted}, loaded.diagnostics);
    Plan made = compile(loaded.spec, {scripted}, loaded.diagnostics);
    if (has_errors(loaded.diagnostics)) __builtin_trap();
    return made;
  }();
  return compiled;
}

bool is_small(const Script& script) {
  std::size_t yields = 0;
  for (const NodeScript& node : script.nodes)
    for (const auto& turn : node.by_iteration) yields += turn.size();
  return yields < 24 && script.calls.size() < 8;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  LoadedScenario loaded = load_scenario("fuzz.yaml", text);
  if (!has_errors(loaded.diagnostics)) {
    const Script script = bind_scenario(loaded.spec, plan(), loaded.diagnostics);
    if (!has_errors(loaded.diagnostics) && is_small(script)) {
      sim::Options options;
      options.events_max = 20'000;
      const sim::Report report = sim::simulate(plan(), script, options);
      if (!report.violations.empty() && report.events < options.events_max) __builtin_trap();
    }
  }
  for (const Diagnostic& d : loaded.diagnostics)
    if (diagnostic_text(d, "fuzz.yaml", text).empty()) __builtin_trap();
  return 0;
}
