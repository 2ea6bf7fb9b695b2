#include "cli/cluster_digest.h"

#include <algorithm>

#include "base/sha256.h"
#include "graph/print.h"

namespace sluice::cli {

/// With its length, so that no two lists of texts look alike.
void ClusterDigest::add(std::string_view text) {
  all_ += std::to_string(text.size()) + ":" + std::string(text);
}

void ClusterDigest::add_port(const Port& port) {
  add(port.name);
  add(to_string(port.type));
  add(shape_text(port));
  add(port.bytes_max);
  add(static_cast<std::uint64_t>(port.frames));
  add(port.count_source ? "count" : "");
  add(port.content);
}

void ClusterDigest::add_interface(const InterfaceDeclaration& interface) {
  add(interface.name);
  add(interface.inputs.size());
  for (const Port& port : interface.inputs) add_port(port);
  add(interface.outputs.size());
  for (const Port& port : interface.outputs) add_port(port);
  add(interface.frames.size());
  for (const std::vector<std::string>& together : interface.frames) {
    add(together.size());
    for (const std::string& output : together) add(output);
  }
  add(interface.yields_max);
}

void ClusterDigest::add_declaration(const PluginDeclaration& declaration) {
  add(declaration.session_state ? "keeps sessions" : "");
  add(declaration.interfaces.size());
  for (const InterfaceDeclaration& interface : declaration.interfaces) add_interface(interface);
  // What a role does where the workflow does not say: machines may have other defaults.
  add(declaration.options.size());
  for (const OptionDeclaration& option : declaration.options) {
    add(option.name);
    add(option.fallback ? *option.fallback : "");
  }
}

void ClusterDigest::add_workflow(const LoadedWorkflow& loaded, const Catalog& catalog) {
  add(loaded.text);
  for (const Override& override : loaded.overrides) add(override.path + "=" + override.value);
  // Of files that it includes, what it took from them.
  for (const RoleSpec& role : loaded.spec.roles) {
    add(role.name.text);
    add(role.plugin.text);
    add(role.model ? role.model->text : "");
    add(role.replicas);
    add(static_cast<std::uint64_t>(role.balance));
    add(role.by_cache ? "by cache" : "");
    add(role.idempotent ? "idempotent" : "");
    for (const OptionSpec& option : role.options) add(option.key.text + "=" + option.value.text);
    if (const Plugin* plugin = catalog.find(role.plugin.text); plugin != nullptr)
      add_declaration(plugin->declaration);
  }
  for (const GlobalParamSpec& param : loaded.spec.global_params) {
    add(param.name.text);
    add(param.kind.text);
    add(param.model ? param.model->text : "");
    add(static_cast<std::uint64_t>(param.pages));
    add(static_cast<std::uint64_t>(param.page_tokens));
    add(to_string(param.kv_dtype));
    add(param.device == EngineDevice::cuda ? "cuda" : "cpu");
  }
}

std::array<std::byte, 32> ClusterDigest::with(const ClusterSpec& spec) const {
  ClusterDigest whole = *this;
  whole.add(static_cast<std::uint64_t>(spec.lease.count()));
  std::string registry = spec.registry ? spec.registry->text : "none";
  if (spec.registry_at && spec.registry_forward)
    registry += " at " + spec.registry_at->text + ", " + spec.registry_forward->text;
  whole.add(registry);
  for (const ClusterMachine& machine : spec.machines) {
    whole.add(machine.name.text);
    whole.add(machine.home ? "home" : "");
    whole.add(machine.keeper ? "keeper" : "");
    for (const Name& role : machine.roles) whole.add(role.text);
  }
  const auto sum = sha256(whole.all_);
  std::array<std::byte, 32> bytes{};
  std::ranges::transform(sum, bytes.begin(), [](std::uint8_t b) { return std::byte{b}; });
  return bytes;
}

}  // namespace sluice::cli
