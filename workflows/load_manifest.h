// The manifest of a role plugin, `NAME.role.yaml`: what a shared object declares, read without it.
//
// Errors: diagnostics with line and column; docs/PLUGINS.md lists the keys. Bounds: 64 KiB of text,
// 64 interfaces, fields a side, options and kinds; read as untrusted.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/declaration.h"
#include "graph/diagnostic.h"
#include "workflows/load.h"

namespace sluice {

struct RoleManifest {
  PluginDeclaration declaration;
  std::uint32_t abi_major = 0;
  std::uint32_t abi_minor = 0;
  bool stepped = false;
  Mark name_mark;  // where they stand in its text
  Mark abi_mark;
  std::vector<Mark> param_marks;  // of the declaration's `global_param_kinds`, one by one
};

struct LoadedManifest {
  RoleManifest manifest;  // whole when there is no error
  Diagnostics diagnostics;
  std::string text;
};

inline constexpr std::size_t manifest_bytes_max = std::size_t{64} << 10;

LoadedManifest load_manifest(std::string_view text);

/// The first thing that they declare differently, as "interfaces.say.yields_max is 2 in A, 3 in B";
/// empty: nothing. What things mean in words is not compared.
std::string difference(const RoleManifest& a, std::string_view name_of_a, const RoleManifest& b,
                       std::string_view name_of_b);

/// The keys that each part of a manifest knows.
std::span<const KnownKeys> manifest_keys();

}  // namespace sluice
