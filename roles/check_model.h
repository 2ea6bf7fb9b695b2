// Whether a checkpoint is of a family that a role can play, read from its `config.json` or the
// head of its GGUF file alone.
//
// Errors: what stands there, and which families the role plays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice {

Result<void> check_vision_encoder(const std::string& path);
Result<void> check_language_model(const std::string& path);
Result<void> check_chat_model(const std::string& path);
Result<void> check_policy(const std::string& path);
Result<void> check_action_expert(const std::string& path);
/// Of a policy whose actions are words, the statistics of this data set, or its only ones; of
/// others nothing.
Result<void> check_statistics(const std::string& path, const std::string& dataset);
Result<void> check_denoiser(const std::string& path);
Result<void> check_class_denoiser(const std::string& path);
Result<void> check_image_codec(const std::string& path);
/// Whatever has a cache of keys and values.
Result<void> check_paged_kv(const std::string& path);

/// Of a role that plays checkpoints of several kinds: whether it runs the interface over this one.
Result<void> check_interface(const std::string& path, std::string_view plugin,
                             std::string_view interface);

/// And whether it does anything with an option that its plugin declares.
Result<void> check_option(const std::string& path, std::string_view plugin,
                          std::string_view option);

/// And whether it reads an input that its plugin declares. An activation with one that it does not
/// read fails.
Result<void> check_input(const std::string& path, std::string_view plugin,
                         std::string_view interface, std::string_view field);
/// And whether it sees pictures at all. Of roles that read none nothing.
Result<void> check_sees(const std::string& path, std::string_view plugin, std::string_view field);

/// Whether a role cannot do without words in this input: those of a robot, that is to do nothing
/// it was not told. A message that is a picture alone can be answered.
bool needs_words(std::string_view plugin, std::string_view field);

/// Whether its decoder runs on a GPU under roles: of models that answer with words, and no others.
Result<void> check_cuda(const std::string& path);

/// Which of them a checkpoint is, by the parts it has.
enum class ModelKind : std::uint8_t {
  chat,
  drawing,  // answers, and draws by the same trunk
  policy,
  picture,
  diffusion,
  vae
};
Result<ModelKind> kind_of_model(const std::string& path);

}  // namespace sluice
