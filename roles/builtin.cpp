#include "roles/catalog.h"
#include "roles/chat_role.h"
#include "roles/chat_sessions.h"
#include "roles/denoiser.h"
#include "roles/image_codec.h"
#include "roles/language_model.h"
#include "roles/paged_kv.h"
#include "roles/parse_request.h"
#include "roles/scripted.h"
#include "roles/vision_encoder.h"

namespace sluice {

void add_builtin_plugins(Catalog& catalog) {
  catalog.add(parse_request_plugin());
  catalog.add(vision_encoder_plugin());
  catalog.add(language_model_plugin());
  catalog.add(chat_model_plugin());
  catalog.add(denoiser_plugin());
  catalog.add(image_codec_plugin());
  catalog.add(scripted_plugin());
  catalog.add_global_param("paged_kv", PagedKv::make);
  catalog.add_global_param("chat_kv", ChatSessions::make);
}

}  // namespace sluice
