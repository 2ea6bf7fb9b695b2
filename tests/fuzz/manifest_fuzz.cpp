// Any bytes as a plugin's manifest, or as two with a line `---` between: read, compared as the
// loader compares a file with what its shared object holds, and used by a workflow; or refused
// with places.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/print.h"
#include "workflows/load.h"
#include "workflows/load_manifest.h"

using namespace sluice;

namespace {

/// What a terminal is sent holds no control bytes and no endless line, whatever the file holds.
void check_shown(const Diagnostics& diagnostics, std::string_view text) {
  if (diagnostics.size() > diagnostics_max + 1) __builtin_trap();
  for (const Diagnostic& d : diagnostics) {
    const std::string shown = diagnostic_text(d, "fuzz.yaml", text);
    if (shown.empty() || shown.size() > 4096) __builtin_trap();
    for (const char c : shown)
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
        __builtin_trap();
  }
}

/// What a manifest with no error promises its readers.
void check_sound(const PluginDeclaration& declared) {
  if (declared.name.empty() || declared.interfaces.empty()) __builtin_trap();
  for (const OptionDeclaration& option : declared.options) {
    if (option.fallback.has_value() && !option_problem(option, *option.fallback).empty())
      __builtin_trap();
    if (option_range(option).empty()) __builtin_trap();
  }
  for (const InterfaceDeclaration& one : declared.interfaces) {
    if (find_interface(declared, one.name) != &one) __builtin_trap();
    for (const auto& frame : one.frames)
      for (const std::string& field : frame)
        if (find_port(one.outputs, field) == nullptr) __builtin_trap();
    for (const Port& port : one.inputs)
      if (!shapes_agree(port, port)) __builtin_trap();
  }
}

/// A workflow whose one node runs the first interface, if its inputs can come from a call.
void use(const PluginDeclaration& declared) {
  const InterfaceDeclaration& first = declared.interfaces.front();
  std::string inputs, reads, outputs;
  for (const Port& port : first.inputs) {
    inputs += (inputs.empty() ? "" : ", ") + port.name + ": " + std::string(to_string(port.type));
    reads += (reads.empty() ? "" : ", ") + port.name + ": inputs." + port.name;
  }
  for (const Port& port : first.outputs) outputs += "  " + port.name + ": work." + port.name + "\n";
  LoadedWorkflow loaded =
      load_workflow("w.yaml", "sluice: 1\nworkflow: fuzz\ninputs: { " + inputs +
                                  " }\nroles: { r: { plugin: " + declared.name +
                                  " } }\nnodes:\n  work: { run: r." + first.name +
                                  ", inputs: [ { " + reads + " } ] }\noutputs:\n" + outputs);
  const Plan plan = plan_workflow(loaded, Declarations{declared});
  if (!has_errors(loaded.diagnostics) && plan_text(plan).empty()) __builtin_trap();
  check_shown(loaded.diagnostics, loaded.text);
}

LoadedManifest read(std::string_view text) {
  LoadedManifest loaded = load_manifest(text);
  check_shown(loaded.diagnostics, loaded.text);
  if (has_errors(loaded.diagnostics)) return loaded;
  check_sound(loaded.manifest.declaration);
  if (!difference(loaded.manifest, "A", loaded.manifest, "B").empty()) __builtin_trap();
  return loaded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view between = "\n---\n";
  const std::size_t cut = text.find(between);
  const LoadedManifest one = read(text.substr(0, cut));
  if (has_errors(one.diagnostics)) return 0;
  use(one.manifest.declaration);
  if (cut == std::string_view::npos) return 0;
  const LoadedManifest other = read(text.substr(cut + between.size()));
  if (has_errors(other.diagnostics)) return 0;
  // Who is asked first changes what is named first, not whether they differ.
  if (difference(one.manifest, "A", other.manifest, "B").empty() !=
      difference(other.manifest, "A", one.manifest, "B").empty())
    __builtin_trap();
  return 0;
}
