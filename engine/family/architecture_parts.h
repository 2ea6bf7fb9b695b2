// Readers of a configuration's parts, which several families share. For `Architecture` only.
//
// Each remembers the first thing that is wrong in `problem`; `place` is what stands before a key in
// messages.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/checkpoint/json_reader.h"
#include "engine/family/architecture.h"

namespace sluice {

using Json = nlohmann::json;

void read_activation(JsonReader& reader, const char* key, kernels::Activation& to);
/// A family's defaults, as the public implementation has them.
DecoderShape text_defaults(Family family);
DecoderShape read_text(const Json& config, const std::string& place, Family family,
                       std::string& problem);
TowerShape read_siglip(const Json& config, const std::string& place, std::string& problem);
TowerShape read_dinov2(const Json& config, const std::string& place, bool registers,
                       std::string& problem);

void read_pi0(const Json& config, Architecture& made, std::string& problem);
void read_smolvla(const Json& config, Architecture& made, std::string& problem);
void read_openvla(const Json& config, Architecture& made, std::string& problem);
void read_dit(const Json& config, Architecture& made, std::string& problem);
void read_vae(const Json& config, Architecture& made, std::string& problem);
void read_scenes(const Json& config, Architecture& made, std::string& problem);

}  // namespace sluice
