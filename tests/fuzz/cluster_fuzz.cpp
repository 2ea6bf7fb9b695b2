// Any bytes as a cluster file of one workflow: read, its roles placed, or refused with places.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "graph/print.h"
#include "tests/cluster/file_mistakes.h"
#include "workflows/cluster.h"
#include "workflows/load.h"

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

/// What a file without an error promises those who start its machines.
void check_sound(const ClusterSpec& spec, const Placement& placed, const WorkflowSpec& workflow) {
  const auto machines = static_cast<std::uint32_t>(spec.machines.size());
  if (machines == 0 || machines > 256 || spec.homes().empty()) __builtin_trap();
  if (!std::ranges::is_sorted(spec.homes())) __builtin_trap();
  if (spec.homes().back() >= machines || spec.keeper() >= machines) __builtin_trap();
  if (spec.lease.count() < 60 || spec.lease.count() > 3'600'000) __builtin_trap();
  if (placed.size() != 1 || placed[0].size() != workflow.roles.size()) __builtin_trap();
  const bool any_address = spec.machines[0].address.has_value();
  for (const ClusterMachine& machine : spec.machines) {
    if (machine.name.text.empty() || machine.address.has_value() != any_address) __builtin_trap();
    for (const ClusterHost& host : machine.hosts) {
      if (host.roles.empty() || host.cores.size() > host_cores_max) __builtin_trap();
      if (host.memory != 0 && host.memory < host_memory_least) __builtin_trap();
    }
  }
  for (const std::vector<std::uint32_t>& on : placed[0]) {
    if (on.empty()) __builtin_trap();
    for (const std::uint32_t machine : on)
      if (machine >= machines || std::ranges::count(on, machine) != 1) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  LoadedCluster loaded = load_cluster("fuzz.yaml", text);
  const WorkflowSpec* specs[] = {&workflow.spec};
  // As the commands do: what is wrong with the roles' places is told beside other mistakes.
  Placement placed;
  if (loaded.all_workflows && loaded.spec.workflows.size() == 1)
    placed = place_roles(loaded, specs);
  check_shown(loaded.diagnostics, text);
  if (!has_errors(loaded.diagnostics) && loaded.spec.workflows.size() == 1)
    check_sound(loaded.spec, placed, workflow.spec);
  if (!loaded.spec.workflows.empty() && !has_errors(loaded.diagnostics) && !is_cluster(text))
    __builtin_trap();
  return 0;
}
