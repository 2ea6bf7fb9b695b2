// Any bytes as a workflow: loaded, checked, compiled and printed, or refused with places.
#include <cstdint>
#include <string_view>

#include "graph/check.h"
#include "graph/print.h"
#include "workflows/load.h"

using namespace sluice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Declarations declarations = [] {
    PluginDeclaration scripted;
    scripted.name = "scripted";
    scripted.any_ports = true;
    return Declarations{scripted};
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  LoadedWorkflow loaded = load_workflow("fuzz.yaml", text);
  if (!has_errors(loaded.diagnostics)) check(loaded.spec, declarations, loaded.diagnostics);
  if (!has_errors(loaded.diagnostics)) {
    const Plan plan = compile(loaded.spec, declarations, loaded.diagnostics);
    if (!has_errors(loaded.diagnostics) && (plan_text(plan).empty() || plan_svg(plan).empty()))
      __builtin_trap();
  }
  for (const Diagnostic& d : loaded.diagnostics)
    if (diagnostic_text(d, "fuzz.yaml", text).empty()) __builtin_trap();
  return 0;
}
