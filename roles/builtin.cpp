#include "roles/catalog.h"
#include "roles/chat_role.h"
#include "roles/chat_sessions.h"
#include "roles/check_model.h"
#include "roles/denoiser.h"
#include "roles/image_codec.h"
#include "roles/language_model.h"
#include "roles/paged_kv.h"
#include "roles/parse_request.h"
#include "roles/scripted.h"
#include "roles/vision_encoder.h"

namespace sluice {

namespace {

Plugin playing(ModelCheck can_play, Plugin plugin) {
  plugin.check_model = std::move(can_play);
  return plugin;
}

/// Whichever of the two a model needs.
Result<std::unique_ptr<GlobalParam>> make_paged_kv(const GlobalParamMaking& making) {
  return check_scenes_model(making.model_directory).ok() ? PagedKv::make(making)
                                                         : ChatSessions::make(making);
}
Result<void> check_kv_model(const std::string& path) {
  if (check_scenes_model(path).ok()) return {};
  return check_chat_model(path);
}

}  // namespace

void add_builtin_plugins(Catalog& catalog) {
  catalog.add(parse_request_plugin());
  catalog.add(playing(check_scenes_model, vision_encoder_plugin()));
  catalog.add(playing(check_scenes_model, language_model_plugin()));
  catalog.add(playing(check_chat_model, chat_model_plugin()));
  catalog.add(playing(check_scenes_model, denoiser_plugin()));
  catalog.add(playing(check_scenes_model, image_codec_plugin()));
  catalog.add(scripted_plugin());
  catalog.add_global_param("paged_kv", make_paged_kv, check_kv_model);
}

}  // namespace sluice
