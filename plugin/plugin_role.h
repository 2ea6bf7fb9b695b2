// A role of this program whose work a plugin does.
//
// Errors: what the plugin says, what it did against the interface, and what it throws: each an
// error of that activation, or of the making.
#pragma once

#include <memory>

#include "plugin/include/sluice/sluice_plugin.h"
#include "roles/catalog.h"
#include "workflows/load_manifest.h"

namespace sluice {

/// Borrows the table, which stays as long as the process.
Result<RoleInstance> make_plugin_role(const sluice_plugin& table, const RoleManifest& manifest,
                                      const RoleMaking& making);

Result<std::unique_ptr<GlobalParam>> make_plugin_param(const sluice_plugin& table,
                                                       const GlobalParamMaking& making);

}  // namespace sluice
