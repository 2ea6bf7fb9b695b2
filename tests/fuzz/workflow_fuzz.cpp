// Any bytes as a workflow: loaded, checked, compiled and printed, or refused with places.
#include <cstdint>
#include <string_view>

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
  const Plan plan = plan_workflow(loaded, declarations);
  if (!has_errors(loaded.diagnostics) && (plan_text(plan).empty() || plan_svg(plan).empty() ||
                                          plan_mermaid(plan).empty() || plan_dot(plan).empty()))
    __builtin_trap();
  if (loaded.diagnostics.size() > diagnostics_max + 1) __builtin_trap();
  // What a terminal is sent holds no control bytes and no endless line, whatever the file holds.
  for (const Diagnostic& d : loaded.diagnostics) {
    const std::string shown = diagnostic_text(d, "fuzz.yaml", text);
    if (shown.empty() || shown.size() > 4096) __builtin_trap();
    for (const char c : shown)
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
        __builtin_trap();
  }
  return 0;
}
