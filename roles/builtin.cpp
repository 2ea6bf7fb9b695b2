#include "roles/catalog.h"
#include "roles/chat_role.h"
#include "roles/chat_sessions.h"
#include "roles/check_model.h"
#include "roles/class_denoiser.h"
#include "roles/denoiser.h"
#include "roles/diffusion_kv.h"
#include "roles/image_codec.h"
#include "roles/kv_pages.h"
#include "roles/language_model.h"
#include "roles/paged_kv.h"
#include "roles/parse_request.h"
#include "roles/policy_kv.h"
#include "roles/robot_policy.h"
#include "roles/scripted.h"
#include "roles/vision_encoder.h"

namespace sluice {

namespace {

/// `several`: kinds of checkpoints, over which it runs different interfaces.
Plugin playing(ModelCheck can_play, Plugin plugin, bool several = false) {
  plugin.check_model = std::move(can_play);
  if (several)
    plugin.check_interface = [name = plugin.declaration.name](const std::string& path,
                                                              std::string_view interface) {
      return check_interface(path, name, interface);
    };
  return plugin;
}

/// Whichever its model needs.
Result<std::unique_ptr<GlobalParam>> make_paged_kv(const GlobalParamMaking& making,
                                                   const TextDevice* cuda) {
  if (making.model_directory.empty())
    return invalid_argument("a paged_kv needs `model:`, the checkpoint whose keys it holds");
  const Result<ModelKind> kind = kind_of_model(making.model_directory);
  if (!kind.ok()) return kind.error();
  if (making.spec->device == EngineDevice::cuda)
    if (Result<void> can = check_cuda(making.model_directory); !can.ok()) return can.error();
  if (*kind == ModelKind::drawing) return PagedKv::make(making);
  if (*kind == ModelKind::diffusion) return DiffusionKv::make(making);
  return *kind == ModelKind::policy ? PolicyKv::make(making) : ChatSessions::make(making, cuda);
}

/// Of a conversation's pages each stands for itself; what acts, or draws of a class, goes on with
/// them in place.
Result<void> check_shared_kv(const std::string& path) {
  const Result<ModelKind> kind = kind_of_model(path);
  if (!kind.ok()) return kind.error();
  const bool draws = *kind == ModelKind::diffusion;
  if (!draws && *kind != ModelKind::policy) return {};
  return invalid_argument("the pages of a model that " +
                          std::string(draws ? "draws and answers nothing" : "acts") +
                          " cannot be pulled by other machines");
}

/// Between roles in several processes.
Result<std::unique_ptr<SharedParam>> share_kv(const GlobalParamMaking& making) {
  if (Result<void> has = check_paged_kv(making.model_directory); !has.ok()) return has.error();
  const Result<Architecture> architecture = Architecture::load(making.model_directory);
  if (!architecture.ok()) return architecture.error();
  return share_pages(
      architecture->diffusion.has_value() ? architecture->diffusion->trunk : *architecture->text,
      *making.spec);
}

Plugin over_machines(Plugin plugin) {
  plugin.shares_over_machines = true;
  return plugin;
}

}  // namespace

void add_builtin_plugins(Catalog& catalog, const TextDevice* cuda) {
  catalog.add(parse_request_plugin());
  catalog.add(playing(check_vision_encoder, vision_encoder_plugin(), true));
  catalog.add(over_machines(playing(check_language_model, language_model_plugin(), true)));
  catalog.add(over_machines(playing(check_chat_model, chat_model_plugin())));
  catalog.add(playing(check_policy, robot_policy_plugin(), true));
  catalog.add(playing(check_action_expert, action_expert_plugin()));
  catalog.add(over_machines(playing(check_denoiser, denoiser_plugin())));
  catalog.add(playing(check_class_denoiser, class_denoiser_plugin()));
  catalog.add(playing(check_image_codec, image_codec_plugin(), true));
  catalog.add(scripted_plugin());
  const auto make_kv = [cuda](const GlobalParamMaking& making) {
    return make_paged_kv(making, cuda);
  };
  catalog.add_global_param("paged_kv", make_kv, check_paged_kv, check_shared_kv);
  catalog.add_sharing("paged_kv", {check_paged_kv, share_kv});
}

}  // namespace sluice
