// What may stand under `options:` of a role that runs a checkpoint in an engine.
//
// Errors: invalid_argument, naming role, option and what it may be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/plan/planner.h"
#include "graph/declaration.h"
#include "graph/spec.h"
#include "kernels/matmul.h"

namespace sluice {

struct EngineOptions {
  kernels::WeightFormat format = kernels::WeightFormat::bf16;
  bool says_format = false;
  PlannerOptions planner;
  bool share_prefixes = true;
  std::size_t tokens_max = 256;    // of an answer whose message does not say
  std::size_t steps = 0;           // of denoising; 0: the checkpoint's own
  std::optional<double> guidance;  // of a drawing; none: 4
  std::uint64_t seed = 0;          // of noise that nobody gives
  std::uint8_t priority = 0;       // of its works, higher first
  bool asks_subtask = false;       // pi0.5: for words, not for an action
  std::string statistics;          // the data set's name; empty: the only one
  Nanoseconds deadline = 0;        // of a control cycle or a drawing, from its beginning; 0: none

  /// On a GPU it is bf16 where the role does not say.
  kernels::WeightFormat format_on(EngineDevice device) const {
    return device == EngineDevice::cuda && !says_format ? kernels::WeightFormat::bf16 : format;
  }
};

/// The declarations of the options of these names, in their order.
std::vector<OptionDeclaration> engine_options(std::span<const std::string_view> names);

/// What the role says, of the options that its plugin declares. Without `precision` it is the
/// checkpoint's usual one, and for a GGUF file, whose blocks are narrower, exact.
Result<EngineOptions> read_engine_options(const RoleSpec& role, const std::string& model,
                                          const std::vector<OptionDeclaration>& known);

/// Of a role that needs no paged_kv and lists none: whether it does anything with the option, and
/// not only the engine that a paged_kv brings.
Result<void> check_option_alone(const RoleSpec& role, const std::string& option);

}  // namespace sluice
