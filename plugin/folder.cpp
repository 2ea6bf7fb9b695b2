#include "plugin/folder.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "graph/print.h"
#include "plugin/library.h"
#include "plugin/plugin_role.h"
#include "workflows/load_manifest.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view ending = ".role.yaml";
constexpr std::size_t manifests_max = 1'000;

Result<std::vector<fs::path>> manifests_of(const std::string& folder) {
  std::error_code failed;
  std::vector<fs::path> found;
  const Result<bool> there = is_there(folder);
  if (!there.ok()) return Error{there.error().code, there.error().message + " (--plugins)"};
  if (!fs::is_directory(folder, failed))
    return Error{ErrorCode::not_found,
                 folder + (*there ? ": this is a file, not a folder (--plugins)"
                                  : ": no such folder (--plugins)")};
  fs::directory_iterator entries(folder, failed);
  if (failed) return Error{ErrorCode::not_found, folder + ": cannot be read: " + failed.message()};
  for (; entries != fs::directory_iterator(); entries.increment(failed)) {
    if (failed) return Error{ErrorCode::not_found, folder + ": " + failed.message()};
    if (entries->path().filename().string().ends_with(ending)) found.push_back(entries->path());
    if (found.size() > manifests_max)
      return Error{ErrorCode::exhausted, folder + ": more than " + std::to_string(manifests_max) +
                                             " manifests in one folder"};
  }
  if (found.empty())
    return Error{ErrorCode::not_found,
                 folder + ": no plugin in it (a file NAME.role.yaml beside NAME.so)"};
  std::ranges::sort(found);
  return found;
}

/// Opens the code when a role or a parameter is made, and not before.
Result<const sluice_plugin*> table_of(const std::string& folder, const RoleManifest& manifest) {
  const Result<std::string> path = find_library(folder, manifest.declaration.name);
  if (!path.ok()) return path.error();
  return open_library(*path, manifest);
}

void add(Catalog& catalog, const std::string& folder, const RoleManifest& manifest) {
  Plugin plugin;
  plugin.declaration = manifest.declaration;
  plugin.make = [folder, manifest](const RoleMaking& making) -> Result<RoleInstance> {
    const Result<const sluice_plugin*> table = table_of(folder, manifest);
    if (!table.ok()) return table.error();
    return make_plugin_role(*table.value(), manifest, making);
  };
  catalog.add(std::move(plugin));
  for (const std::string& kind : manifest.declaration.global_param_kinds)
    catalog.add_global_param(
        kind,
        [folder,
         manifest](const GlobalParamMaking& making) -> Result<std::unique_ptr<GlobalParam>> {
          const Result<const sluice_plugin*> table = table_of(folder, manifest);
          if (!table.ok()) return table.error();
          return make_plugin_param(*table.value(), making);
        });
}

}  // namespace

void check_manifest_place(const Catalog& catalog, const std::string& path, LoadedManifest& loaded) {
  if (has_errors(loaded.diagnostics)) return;
  const PluginDeclaration& declared = loaded.manifest.declaration;
  const Mark name = loaded.manifest.name_mark;
  const auto wrong = [&](Mark mark, std::string code, std::string message, std::string help) {
    report(loaded.diagnostics,
           {Severity::error, mark, std::move(code), std::move(message), std::move(help)});
  };
  const std::string file = fs::path(path).filename().string();
  const std::string stem =
      file.ends_with(ending) ? file.substr(0, file.size() - ending.size()) : declared.name;
  if (declared.name != stem)
    wrong(name, "wrong-name",
          "the manifest names '" + declared.name + "', its file " + in_quotes(stem),
          "a plugin NAME has NAME.role.yaml beside NAME.so");
  if (const std::string why = abi_problem(loaded.manifest.abi_major, loaded.manifest.abi_minor);
      !why.empty())
    wrong(loaded.manifest.abi_mark, "wrong-abi", "the plugin wants " + why, "");
  if (catalog.find(declared.name) != nullptr)
    wrong(name, "same-name", "there is a plugin '" + declared.name + "' already",
          "give this one another name: `sluice roles` lists those of the program, `sluice roles "
          "--plugins DIR` those of a folder too");
  for (std::size_t i = 0; i < declared.global_param_kinds.size(); ++i)
    if (const std::string& kind = declared.global_param_kinds[i]; catalog.has_kind(kind))
      wrong(loaded.manifest.param_marks[i], "same-kind",
            "there is a kind of global parameter '" + kind + "' already",
            "give this one another name");
  sort_diagnostics(loaded.diagnostics);
}

std::string add_plugins(Catalog& catalog, const std::string& folder) {
  const Result<std::vector<fs::path>> paths = manifests_of(folder);
  if (!paths.ok()) return "error: " + paths.error().message + "\n";
  std::string problems;
  for (const fs::path& path : paths.value()) {
    const Result<std::string> text = read_whole_file(path.string(), manifest_bytes_max);
    if (!text.ok()) {
      problems += "error: " + text.error().message + "\n";
      continue;
    }
    LoadedManifest loaded = load_manifest(*text);
    check_manifest_place(catalog, path.string(), loaded);
    problems += diagnostics_text(loaded.diagnostics, path.string(), loaded.text);
    if (!has_errors(loaded.diagnostics)) add(catalog, folder, loaded.manifest);
  }
  return problems;
}

}  // namespace sluice
