#include "roles/scripted.h"

namespace sluice {

Plugin scripted_plugin() {
  Plugin plugin;
  plugin.declaration.name = "scripted";
  plugin.declaration.meaning = "stands for a role still to be written; runs in scenarios only";
  plugin.declaration.any_ports = true;
  plugin.make = [](const RoleMaking& making) -> Result<RoleInstance> {
    (void)making;  // whoever asks names the role
    return invalid_argument(
        "it is scripted, so it runs in scenarios only: try `sluice test` or "
        "`sluice simulate`, or give it a plugin that computes");
  };
  return plugin;
}

}  // namespace sluice
