// Readers of a configuration's parts, which several families share. For `Architecture` only.
//
// `place` is what stands before a key in messages. Thread: any; no state.
// Errors: in `problem`, in words: the first thing that is wrong. What was read is of no use then.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/checkpoint/json_reader.h"
#include "engine/family/architecture.h"

namespace sluice {

using Json = nlohmann::json;

/// By the name that `transformers` gives it.
void read_activation(JsonReader& reader, const char* key, kernels::Activation& to);
/// A family's defaults, as the public implementation has them.
DecoderShape text_defaults(Family family);
/// A language model's part: over the defaults, what `config` says.
DecoderShape read_text(const Json& config, const std::string& place, Family family,
                       std::string& problem);
/// A vision tower's part.
TowerShape read_siglip(const Json& config, const std::string& place, std::string& problem);
TowerShape read_dinov2(const Json& config, const std::string& place, bool registers,
                       std::string& problem);

/// Whole configurations; `made.family` is told already.
void read_pi0(const Json& config, Architecture& made, std::string& problem);
void read_smolvla(const Json& config, Architecture& made, std::string& problem);
void read_openvla(const Json& config, Architecture& made, std::string& problem);
/// OpenVLA's, of all data sets, in place of those read before. `key`: what messages call them.
void read_statistics(const Json& all, const char* key, Architecture& made, std::string& problem);
void read_dit(const Json& config, Architecture& made, std::string& problem);
void read_vae(const Json& config, Architecture& made, std::string& problem);
void read_scenes(const Json& config, Architecture& made, std::string& problem);

}  // namespace sluice
