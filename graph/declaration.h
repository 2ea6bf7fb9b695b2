// What a role plugin declares of itself, so that a workflow can be checked before anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/payload.h"

namespace sluice {

struct Port {
  std::string name;
  ValueType type = ValueType::any;
  std::string meaning;          // one sentence for `sluice --help roles` and docs
  bool count_source = false;    // an output that carries a number, exactly once per call
  std::uint64_t bytes_max = 0;  // of one value, where there is a limit; 0: no bound
};

struct InterfaceDeclaration {
  std::string name;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  /// Sets of outputs that always leave in one frame, e.g. {{"text"}, {"image"}} come apart.
  /// Empty: every frame holds all outputs.
  std::vector<std::vector<std::string>> frames;
  std::uint32_t yields_max = 0;  // most frames of one activation; 0: no bound
};

/// What may stand under a role's `options:`.
struct OptionDeclaration {
  std::string name;
  std::string meaning;
  std::vector<std::string> choices;  // one of these words; empty: a whole number
  std::int64_t least = 0;
  std::int64_t most = 0;
};

struct PluginDeclaration {
  std::string name;
  std::string meaning;
  std::vector<InterfaceDeclaration> interfaces;
  bool session_state = false;  // keeps state between the activations of a session
  bool needs_model = false;    // `model:` must be given
  bool any_ports = false;      // `scripted`: any interface, ports taken from the workflow
  std::vector<std::string> global_param_kinds;  // kinds it must be given, e.g. {"paged_kv"}
  std::vector<OptionDeclaration> options = {};
};

/// All plugins a program knows. Lookups are linear: there are tens of them.
using Declarations = std::vector<PluginDeclaration>;

const PluginDeclaration* find_plugin(const Declarations& declarations, std::string_view name);
const InterfaceDeclaration* find_interface(const PluginDeclaration& plugin, std::string_view name);
const Port* find_port(const std::vector<Port>& ports, std::string_view name);

}  // namespace sluice
