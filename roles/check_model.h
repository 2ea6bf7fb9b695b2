// Whether a checkpoint is of a family that a role can play, read from its `config.json` or the
// head of its GGUF file alone.
//
// Errors: what stands there, and what the role plays.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice {

/// vision_encoder, image_codec, language_model, denoiser and paged_kv: a models/scenes checkpoint.
Result<void> check_scenes_model(const std::string& directory);
/// chat_model: a checkpoint that answers in words.
Result<void> check_chat_model(const std::string& directory);

}  // namespace sluice
