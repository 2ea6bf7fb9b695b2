// The plugins of a folder: their manifests are read, their code is not, until a role is made.
#pragma once

#include <string>

#include "roles/catalog.h"
#include "workflows/load_manifest.h"

namespace sluice {

/// Adds what each `NAME.role.yaml` of the folder declares. Gives all that is wrong, with file, line
/// and column, as text; empty: nothing. Bounds: 1,000 manifests.
std::string add_plugins(Catalog& catalog, const std::string& folder);

/// What keeps a manifest that is right in itself from being that file's, in a program that knows
/// the catalog, is added to its diagnostics: its name, its ABI, and what is there already.
void check_manifest_place(const Catalog& catalog, const std::string& path, LoadedManifest& loaded);

}  // namespace sluice
