// What a role plugin declares of itself, so that a workflow can be checked before anything runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/payload.h"

namespace sluice {

/// How many frames of an input one activation reads.
enum class PortFrames : std::uint8_t {
  any,          // all that came, be it none
  at_most_one,  // groups may leave it out; a second frame is an error of the call
  one,          // every group brings it; none and a second one are errors of the call
};

struct Port {
  std::string name;
  ValueType type = ValueType::any;
  std::string meaning;                   // one sentence for `sluice --help roles` and docs
  bool count_source = false;             // an output that carries a number, exactly once per call
  std::uint64_t bytes_max = 0;           // of one value, where there is a limit; 0: no bound
  std::optional<Dtype> dtype = {};       // of a tensor or audio; none: any
  std::vector<std::int64_t> shape = {};  // of a tensor or audio, `any_size` in places; empty: any
  PortFrames frames = PortFrames::any;   // of an input
  /// What its values are, where their type and shape do not tell them from others: "rows of text".
  /// Empty: anything.
  std::string content = {};
};

inline constexpr std::int64_t any_size = -1;

/// "f32[?, 7]", as `Tensor::describe` writes one.
std::string shape_text(const Port& port);
/// False when no value can be in both ports: another dtype, rank or size.
bool shapes_agree(const Port& a, const Port& b);
/// False when the values of one port mean nothing in the other, as both say.
bool contents_agree(const Port& a, const Port& b);
/// Whether the tensor is what the port declares.
bool fits(const Port& port, const Tensor& tensor);
/// What is wrong with a value in this port, or nothing: its type, its size, or a picture that is
/// none. Says it as the end of "the role yielded ...".
std::optional<std::string> breach_of(const Port& port, const Payload& value);

struct InterfaceDeclaration {
  std::string name;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  /// Sets of outputs that always leave in one frame, e.g. {{"text"}, {"image"}} come apart.
  /// Empty: every frame holds all outputs.
  std::vector<std::vector<std::string>> frames;
  std::uint32_t yields_max = 0;  // most frames of one activation; 0: no bound
  /// Of a role that keeps session state: it goes on with what another activation of the call has
  /// brought, and keeps nothing itself.
  bool keeps_nothing = false;
};

enum class OptionType : std::uint8_t { whole, real, text };

/// What may stand under a role's `options:`.
struct OptionDeclaration {
  std::string name;
  std::string meaning;
  std::vector<std::string> choices;  // one of these words; empty: what `type` says
  std::int64_t least = 0;            // of a whole number; of a text, bytes
  std::int64_t most = 0;
  OptionType type = OptionType::whole;
  double real_least = 0;
  double real_most = 0;
  std::optional<std::string> fallback = {};  // its value where the workflow gives none
  bool required = false;
};

/// "a whole number from 1 to 9", "one of low, high".
std::string option_range(const OptionDeclaration& option);
/// What is wrong with an option's value, or nothing.
std::string option_problem(const OptionDeclaration& option, const std::string& value);

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
