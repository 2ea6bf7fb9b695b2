#include "roles/check_model.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/file.h"
#include "engine/checkpoint/json_reader.h"
#include "engine/family/architecture.h"
#include "engine/scenes/config.h"

namespace sluice {

namespace {

struct Played {
  std::string_view role;
  std::vector<Family> families;
  bool scenes = false;
};

/// One that is wrong somewhere is told where.
bool says_scenes(const std::string& path) {
  const Result<std::string> text = read_whole_file(path + "/config.json", config_bytes_max);
  return text.ok() && text->find("\"sluice_scenes\"") != std::string::npos;
}

Result<void> check(const std::string& path, const Played& played) {
  const Result<ModelConfig> scenes = ModelConfig::load(path);
  Result<Architecture> model = Error{};
  std::string found = "made as models/scenes is";
  if (scenes.ok()) {
    if (played.scenes) return {};
  } else {
    model = Architecture::load(path);
    if (!model.ok()) return says_scenes(path) ? scenes.error() : model.error();
    if (std::ranges::find(played.families, model->family) != played.families.end()) return {};
    found = "of the family " + std::string(to_string(model->family));
  }
  std::string names;
  for (const Family family : played.families)
    names += (names.empty() ? "" : ", ") + std::string(to_string(family));
  if (played.scenes) names += (names.empty() ? "" : ", and ") + std::string("models/scenes");
  return invalid_argument(path + " holds a model " + found + ", which " + std::string(played.role) +
                          " does not play; it plays " + names);
}

const std::vector<Family> chats{Family::llama,     Family::qwen2,      Family::gemma,
                                Family::paligemma, Family::qwen2_5_vl, Family::smolvlm};
const std::vector<Family> policies{Family::pi0, Family::pi05, Family::smolvla};

std::vector<Family> joined(std::initializer_list<std::vector<Family>> parts) {
  std::vector<Family> all;
  for (const std::vector<Family>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

Result<void> check_vision_encoder(const std::string& path) {
  return check(path, {"vision_encoder",
                      joined({{Family::siglip, Family::dinov2, Family::paligemma,
                               Family::qwen2_5_vl, Family::smolvlm},
                              policies}),
                      true});
}

Result<void> check_language_model(const std::string& path) {
  return check(path, {"language_model", joined({chats, policies}), true});
}

Result<void> check_chat_model(const std::string& path) {
  return check(path, {"chat_model", chats, false});
}

Result<void> check_policy(const std::string& path) {
  return check(path, {"a role of robot policies", policies, false});
}

Result<void> check_denoiser(const std::string& path) { return check(path, {"denoiser", {}, true}); }

Result<void> check_class_denoiser(const std::string& path) {
  return check(path, {"class_denoiser", {Family::dit}, false});
}

Result<void> check_image_codec(const std::string& path) {
  return check(path, {"image_codec", {Family::vae}, true});
}

Result<void> check_paged_kv(const std::string& path) {
  return check(path, {"a paged_kv", joined({chats, policies}), true});
}

Result<void> check_interface(const std::string& path, std::string_view plugin,
                             std::string_view interface) {
  struct Runs {
    std::string_view plugin;
    ModelKind kind;
    std::string_view over;  // what kind that is
    std::vector<std::string_view> interfaces;
  };
  static const Runs all[] = {
      {"vision_encoder", ModelKind::policy, "a robot policy", {"encode_cameras"}},
      {"vision_encoder", ModelKind::scenes, "models/scenes", {"encode"}},
      {"vision_encoder", ModelKind::chat, "a model that answers", {"encode"}},
      {"vision_encoder", ModelKind::picture, "a tower by itself", {"encode"}},
      {"language_model", ModelKind::scenes, "models/scenes", {"embed", "generate"}},
      {"language_model",
       ModelKind::chat,
       "a model that answers",
       {"generate", "prefill", "decode"}},
      {"language_model", ModelKind::policy, "a robot policy", {"prefill"}},
      {"image_codec", ModelKind::scenes, "models/scenes", {"encode", "decode"}},
      {"image_codec", ModelKind::vae, "a VAE", {"decode"}},
  };
  const Result<ModelKind> kind = kind_of_model(path);
  if (!kind.ok()) return {};  // that is said elsewhere
  for (const Runs& runs : all) {
    if (runs.plugin != plugin || runs.kind != *kind ||
        std::ranges::find(runs.interfaces, interface) != runs.interfaces.end())
      continue;
    std::string names;
    for (const std::string_view name : runs.interfaces)
      names += (names.empty() ? "" : ", ") + std::string(name);
    return invalid_argument(std::string(plugin) + " over " + std::string(runs.over) + " (" + path +
                            ") runs " + names + ", not " + std::string(interface));
  }
  return {};
}

Result<ModelKind> kind_of_model(const std::string& path) {
  if (ModelConfig::load(path).ok()) return ModelKind::scenes;
  const Result<Architecture> model = Architecture::load(path);
  if (!model.ok()) return model.error();
  if (model->action.has_value()) return ModelKind::policy;
  if (model->diffusion.has_value()) return ModelKind::diffusion;
  if (model->vae.has_value()) return ModelKind::vae;
  return model->text.has_value() ? ModelKind::chat : ModelKind::picture;
}

}  // namespace sluice
