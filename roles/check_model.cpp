#include "roles/check_model.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "engine/family/architecture.h"
#include "engine/policy/action_tokens.h"

namespace sluice {

namespace {

struct Played {
  std::string_view role;
  std::vector<Family> families;
};

/// Why a policy's trunk, which reads words, writes none; of other families nothing.
std::string why_silent(const Architecture& model) {
  switch (model.family) {
    case Family::pi0:
      return ": its trunk was trained for actions, and there is no reference for words of it";
    case Family::pi05:
      return ": its words go on behind what its robot sees and was told: run prefill and decode of "
             "a language_model";
    case Family::smolvla:
      return ": its trunk has other rotary positions and scales, and as a rule fewer layers, than "
             "the language model whose head it carries";
    default:
      return "";
  }
}

using Why = std::string (*)(const Architecture&);

Result<void> check(const std::string& path, const Played& played, Why why = nullptr) {
  const Result<Architecture> model = Architecture::load(path);
  if (!model.ok()) return model.error();
  if (std::ranges::find(played.families, model->family) != played.families.end()) return {};
  std::string names;
  for (const Family family : played.families)
    names += (names.empty() ? "" : ", ") + std::string(to_string(family));
  return invalid_argument(path + " holds a model of the family " +
                          std::string(to_string(model->family)) + ", which " +
                          std::string(played.role) + " does not play" +
                          (why != nullptr ? why(*model) : "") + "; it plays " + names);
}

}  // namespace

Result<void> check_vision_encoder(const std::string& path) {
  return check(path,
               {"vision_encoder",
                families_of({FamilyKind::vision, FamilyKind::vision_language, FamilyKind::policy,
                             FamilyKind::action_tokens, FamilyKind::drawer})});
}

Result<void> check_language_model(const std::string& path) {
  return check(path,
               {"language_model",
                families_of({FamilyKind::language, FamilyKind::vision_language, FamilyKind::policy,
                             FamilyKind::action_tokens, FamilyKind::drawer})});
}

Result<void> check_chat_model(const std::string& path) {
  return check(path,
               {"chat_model", families_of({FamilyKind::language, FamilyKind::vision_language,
                                           FamilyKind::action_tokens})},
               why_silent);
}

Result<void> check_policy(const std::string& path) {
  return check(path,
               {"robot_policy", families_of({FamilyKind::policy, FamilyKind::action_tokens})});
}

Result<void> check_statistics(const std::string& path, const std::string& dataset) {
  const Result<Architecture> model = Architecture::load(path);
  const std::vector<Family> by_words = families_of({FamilyKind::action_tokens});
  if (!model.ok() || std::ranges::find(by_words, model->family) == by_words.end()) return {};
  const Result<const ActionStatistics*> found = statistics_named(*model, dataset);
  return found.ok() ? Result<void>() : invalid_argument(path + ": " + found.error().message);
}

Result<void> check_action_expert(const std::string& path) {
  const auto why = [](const Architecture& model) -> std::string {
    if (model.family != Family::openvla) return "";
    return ": its actions are words of its language model, and a robot_policy's whole cycle";
  };
  return check(path, {"action_expert", families_of({FamilyKind::policy})}, why);
}

Result<void> check_denoiser(const std::string& path) {
  return check(path, {"denoiser", families_of({FamilyKind::drawer})});
}

Result<void> check_class_denoiser(const std::string& path) {
  return check(path, {"class_denoiser", families_of({FamilyKind::diffusion})});
}

Result<void> check_image_codec(const std::string& path) {
  return check(path, {"image_codec", families_of({FamilyKind::codec, FamilyKind::drawer})});
}

Result<void> check_paged_kv(const std::string& path) {
  return check(path, {"a paged_kv", families_of({FamilyKind::language, FamilyKind::vision_language,
                                                 FamilyKind::policy, FamilyKind::action_tokens,
                                                 FamilyKind::drawer, FamilyKind::diffusion})});
}

namespace {

ModelKind kind_of(const Architecture& model) {
  if (model.action.has_value()) return ModelKind::policy;
  if (model.flow.has_value()) return ModelKind::drawing;
  if (model.diffusion.has_value()) return ModelKind::diffusion;
  if (model.vae.has_value()) return ModelKind::vae;
  return model.text.has_value() ? ModelKind::chat : ModelKind::picture;
}

/// What a plugin runs over a kind of checkpoint, where that is not all it declares.
struct Runs {
  std::string_view plugin;
  ModelKind kind;
  std::string_view over;  // what kind that is
  std::vector<std::string_view> interfaces;
  std::vector<std::string_view> unread = {};  // options that do nothing there
  std::vector<Family> families = {};          // none: all of the kind; the first that fits counts
};

const Runs all_runs[] = {
    {"vision_encoder", ModelKind::policy, "a robot policy", {"encode", "encode_cameras"}},
    {"vision_encoder", ModelKind::drawing, "a model that draws", {"encode"}},
    {"vision_encoder", ModelKind::chat, "a model that answers", {"encode"}},
    {"vision_encoder", ModelKind::picture, "a tower by itself", {"encode"}},
    {"language_model", ModelKind::drawing, "a model that draws", {"embed", "generate"}, {"prompt"}},
    {"language_model",
     ModelKind::chat,
     "a model that answers",
     {"generate", "prefill", "decode"},
     {"prompt"}},
    {"language_model",
     ModelKind::policy,
     "a robot policy that answers",
     {"prefill", "decode"},
     {"share_prefixes"},
     {Family::pi05}},
    {"language_model",
     ModelKind::policy,
     "a robot policy",
     {"prefill"},
     {"max_tokens", "share_prefixes", "prompt"}},
    {"robot_policy", ModelKind::policy, "a policy with an action expert", {"act"}, {"statistics"}},
    {"robot_policy",
     ModelKind::chat,
     "a policy whose actions are words",
     {"act"},
     {"steps", "seed"}},
    {"image_codec", ModelKind::drawing, "a model that draws", {"encode", "decode"}},
    {"image_codec", ModelKind::vae, "a VAE", {"decode"}},
};

/// Null: nothing is known against it.
const Runs* runs_of(const std::string& path, std::string_view plugin) {
  const Result<Architecture> model = Architecture::load(path);
  if (!model.ok()) return nullptr;  // that is said elsewhere
  const auto* const found = std::ranges::find_if(all_runs, [&](const Runs& runs) {
    return runs.plugin == plugin && runs.kind == kind_of(*model) &&
           (runs.families.empty() ||
            std::ranges::find(runs.families, model->family) != runs.families.end());
  });
  return found == std::end(all_runs) ? nullptr : found;
}

std::string over(const std::string& path, const Runs& runs) {
  return std::string(runs.plugin) + " over " + std::string(runs.over) + " (" + path + ")";
}

}  // namespace

Result<void> check_interface(const std::string& path, std::string_view plugin,
                             std::string_view interface) {
  const Runs* const runs = runs_of(path, plugin);
  if (runs == nullptr || std::ranges::find(runs->interfaces, interface) != runs->interfaces.end())
    return {};
  std::string names;
  for (const std::string_view name : runs->interfaces)
    names += (names.empty() ? "" : ", ") + std::string(name);
  const Result<Architecture> model = Architecture::load(path);
  const bool writes = interface == "generate" || interface == "decode";
  return invalid_argument(over(path, *runs) + " runs " + names + ", not " + std::string(interface) +
                          (writes && model.ok() ? why_silent(*model) : ""));
}

Result<void> check_option(const std::string& path, std::string_view plugin,
                          std::string_view option) {
  const Runs* const runs = runs_of(path, plugin);
  if (runs == nullptr || std::ranges::find(runs->unread, option) == runs->unread.end()) return {};
  return invalid_argument(over(path, *runs) + " does nothing with the option '" +
                          std::string(option) + "': leave it out");
}

namespace {

/// An input that a plugin declares for other kinds of checkpoints.
struct Unread {
  std::string_view plugin;
  ModelKind kind;
  std::string_view interface, field;
  std::string_view instead;
  std::vector<Family> families = {};  // none: all of the kind
};

constexpr std::string_view of_answers = "a message is `text`, and `features` of its pictures";
const Unread all_unread[] = {
    {"language_model", ModelKind::drawing, "generate", "text",
     "run `embed` over the text, and take its `hidden`"},
    {"language_model", ModelKind::chat, "generate", "hidden", of_answers},
    {"language_model", ModelKind::chat, "generate", "latents", of_answers},
    {"language_model", ModelKind::chat, "prefill", "instruction", of_answers},
    {"language_model", ModelKind::chat, "prefill", "tokens", of_answers},
    {"language_model", ModelKind::chat, "prefill", "state", of_answers},
    {"language_model", ModelKind::policy, "prefill", "text",
     "what a robot is told is its `instruction`, or `tokens`"},
    {"language_model",
     ModelKind::policy,
     "prefill",
     "state",
     "it is read with the actions: give it to `act`",
     {Family::pi0}},
    {"action_expert",
     ModelKind::policy,
     "act",
     "state",
     "it is read with what the robot sees: give it to `prefill`",
     {Family::pi05, Family::smolvla}},
    {"robot_policy", ModelKind::chat, "act", "state", "leave it out"},
    {"robot_policy", ModelKind::chat, "act", "noise", "leave it out"},
};

}  // namespace

Result<void> check_input(const std::string& path, std::string_view plugin,
                         std::string_view interface, std::string_view field) {
  const Result<Architecture> model = Architecture::load(path);
  if (!model.ok()) return {};  // that is said elsewhere
  const auto* const found = std::ranges::find_if(all_unread, [&](const Unread& one) {
    return one.plugin == plugin && one.kind == kind_of(*model) && one.interface == interface &&
           one.field == field &&
           (one.families.empty() ||
            std::ranges::find(one.families, model->family) != one.families.end());
  });
  if (found == std::end(all_unread)) return {};
  return invalid_argument("`" + std::string(interface) + "` of " + std::string(plugin) +
                          " over a model of the family " + std::string(to_string(model->family)) +
                          " (" + path + ") does not read `" + std::string(field) +
                          "`: " + std::string(found->instead));
}

Result<void> check_sees(const std::string& path, std::string_view plugin, std::string_view field) {
  const bool shows = (plugin == "chat_model" && field == "image") ||
                     (plugin == "language_model" && field == "features");
  if (!shows) return {};
  const Result<Architecture> model = Architecture::load(path);
  if (!model.ok() || model->vision.has_value() || model->qwen_vision.has_value()) return {};
  return invalid_argument("the model " + path + " (family " +
                          std::string(to_string(model->family)) + ") takes no pictures");
}

bool needs_words(std::string_view plugin, std::string_view field) {
  return (plugin == "robot_policy" || plugin == "language_model") && field == "instruction";
}

Result<void> check_cuda(const std::string& path) {
  const Result<Architecture> model = Architecture::load(path);
  if (!model.ok()) return model.error();
  const ModelKind kind = kind_of(*model);
  if (kind == ModelKind::chat) return {};
  const bool acts = kind == ModelKind::policy;
  return invalid_argument("with device: cuda roles run models that answer with words, and " + path +
                          " holds one that " + (acts ? "acts" : "draws") + " (family " +
                          std::string(to_string(model->family)) + "): leave device out");
}

Result<ModelKind> kind_of_model(const std::string& path) {
  const Result<Architecture> model = Architecture::load(path);
  if (!model.ok()) return model.error();
  return kind_of(*model);
}

}  // namespace sluice
