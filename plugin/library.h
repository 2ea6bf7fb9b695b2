// A plugin's shared object: opened, and held against this program's ABI and against its manifest.
//
// A library stays open until the process ends: its code may stand behind values, threads and tables
// that nobody counts. Errors: not_found, invalid_argument (not ours, another ABI, or it says
// something else of itself than its manifest); they name the file and what differs.
#pragma once

#include <string>

#include "base/result.h"
#include "plugin/include/sluice/sluice_plugin.h"
#include "workflows/load_manifest.h"

namespace sluice {

/// NAME.so or libNAME.so in the folder, and nowhere else. Refused where anybody may write it.
Result<std::string> find_library(const std::string& folder, const std::string& name);

/// Runs the code of the shared object. `path` has a folder in it.
Result<const sluice_plugin*> open_library(const std::string& path, const RoleManifest& manifest);

/// Whether this program can play plugins of that version; if not, says why.
std::string abi_problem(std::uint32_t major, std::uint32_t minor);

}  // namespace sluice
