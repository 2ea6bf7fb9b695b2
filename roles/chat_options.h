// What a message says of how its answer is made, as attributes of its text: numbers, `_milli` in
// thousandths. Thread: any; no state.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/payload.h"
#include "base/result.h"
#include "engine/tasks/generation.h"

namespace sluice::chat {

/// `tokens_max`: of an answer whose message does not say.
inline GenerationOptions options_of(const Payload& text, std::size_t tokens_max) {
  const auto option = [&](const char* name, std::int64_t otherwise) {
    return text.attribute(name).value_or(otherwise);
  };
  GenerationOptions options;
  options.tokens_max = static_cast<std::size_t>(
      std::max<std::int64_t>(option("max_tokens", static_cast<std::int64_t>(tokens_max)), 1));
  options.sampling.temperature = static_cast<float>(option("temperature_milli", 0)) / 1000.0F;
  options.sampling.top_k = static_cast<std::size_t>(option("top_k", 0));
  options.sampling.top_p = static_cast<float>(option("top_p_milli", 1000)) / 1000.0F;
  options.seed = static_cast<std::uint64_t>(option("seed", 0));
  return options;
}

/// The same again, for `options_of` in another process.
inline void add_options(const GenerationOptions& options, Payload& to) {
  const auto milli = [](float value) { return std::llround(1000.0F * value); };
  const auto add = [&](const char* name, std::int64_t value) {
    to.attributes.emplace_back(name, value);
  };
  add("max_tokens", static_cast<std::int64_t>(options.tokens_max));
  add("temperature_milli", milli(options.sampling.temperature));
  add("top_k", static_cast<std::int64_t>(options.sampling.top_k));
  add("top_p_milli", milli(options.sampling.top_p));
  add("seed", static_cast<std::int64_t>(options.seed));
}

/// What a message that is to go behind the first `step` turns of its session gets where there are
/// fewer.
inline Error no_such_turn(std::size_t step, std::size_t turns) {
  return invalid_argument("step is " + std::to_string(step) + ", and the session has had " +
                          std::to_string(turns) + (turns == 1 ? " turn" : " turns") +
                          ": say one that it has had, or leave `step` out to go on behind all");
}

}  // namespace sluice::chat
