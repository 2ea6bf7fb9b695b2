#include "roles/check_model.h"

#include "engine/checkpoint/gguf.h"
#include "engine/family/architecture.h"
#include "engine/scenes/config.h"

namespace sluice {

Result<void> check_scenes_model(const std::string& directory) {
  const Result<ModelConfig> config = ModelConfig::load(directory);
  if (config.ok()) return {};
  const Result<Architecture> other = Architecture::load(directory);
  if (!other.ok()) return is_gguf(directory) ? other.error() : config.error();
  return invalid_argument(directory + " holds a model of the family " +
                          std::string(to_string(other->family)) +
                          "; this plays checkpoints made as models/scenes is");
}

Result<void> check_chat_model(const std::string& directory) {
  const Result<Architecture> architecture = Architecture::load(directory);
  if (!architecture.ok()) {
    if (!ModelConfig::load(directory).ok()) return architecture.error();
    return invalid_argument(directory +
                            " holds a checkpoint made as models/scenes is, which language_model "
                            "plays with a paged_kv");
  }
  if (architecture->text.has_value() && !architecture->action.has_value() &&
      architecture->statistics.empty())
    return {};
  return invalid_argument(directory + " holds a model of the family " +
                          std::string(to_string(architecture->family)) +
                          ", which does not answer in words");
}

}  // namespace sluice
