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

}  // namespace

void add_builtin_plugins(Catalog& catalog) {
  catalog.add(parse_request_plugin());
  catalog.add(playing(check_scenes_model, vision_encoder_plugin()));
  catalog.add(playing(check_scenes_model, language_model_plugin()));
  catalog.add(playing(check_chat_model, chat_model_plugin()));
  catalog.add(playing(check_scenes_model, denoiser_plugin()));
  catalog.add(playing(check_scenes_model, image_codec_plugin()));
  catalog.add(scripted_plugin());
  catalog.add_global_param("paged_kv", PagedKv::make, check_scenes_model);
  catalog.add_global_param("chat_kv", ChatSessions::make, check_chat_model);
}

}  // namespace sluice
