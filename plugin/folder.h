// The plugins of a folder: their manifests are read, their code is not, until a role is made.
#pragma once

#include <string>

#include "roles/catalog.h"

namespace sluice {

/// Adds what each `NAME.role.yaml` of the folder declares. Gives all that is wrong, with file, line
/// and column, as text; empty: nothing. Bounds: 1,000 manifests.
std::string add_plugins(Catalog& catalog, const std::string& folder);

}  // namespace sluice
