#include "roles/shared_model.h"

#include "roles/chat_sessions.h"
#include "roles/paged_kv.h"
#include "roles/policy_kv.h"

namespace sluice {

Result<SharedModel> shared_model_of(const RoleMaking& making, const EngineOptions& options) {
  const std::string& directory = making.model_directory;
  for (GlobalParam* param : making.global_params) {
    if (auto* kv = dynamic_cast<PagedKv*>(param)) {
      const Result<DrawingHost*> host = kv->host(directory, options);
      if (!host.ok()) return host.error();
      return SharedModel{&(*host)->model, &(*host)->shared};
    }
    if (auto* kv = dynamic_cast<PolicyKv*>(param)) {
      const Result<PolicyHost*> host = kv->host(directory, options.format, options.planner);
      if (!host.ok()) return host.error();
      return SharedModel{&(*host)->model, &(*host)->shared};
    }
    if (auto* kv = dynamic_cast<ChatSessions*>(param)) {
      const Result<ChatEngine*> engine =
          kv->engine(directory, options.format_on(kv->device()), options.planner);
      if (!engine.ok()) return engine.error();
      return SharedModel{&(*engine)->model.model(), &(*engine)->shared};
    }
  }
  return invalid_argument("role '" + making.role->name.text +
                          "': none of its global_params is a paged_kv");
}

}  // namespace sluice
