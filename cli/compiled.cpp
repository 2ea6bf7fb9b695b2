#include "cli/compiled.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "graph/check.h"
#include "graph/print.h"

namespace sluice::cli {

namespace fs = std::filesystem;

Result<Compiled> compile_file(const std::string& path, const Catalog& catalog) {
  Result<LoadedWorkflow> loaded = load_workflow_file(path);
  if (!loaded.ok()) return loaded.error();
  Compiled compiled{std::move(loaded).value(), {}};
  Diagnostics& diagnostics = compiled.loaded.diagnostics;
  const Declarations declarations = catalog.declarations();
  const bool readable = std::ranges::none_of(diagnostics, [](const Diagnostic& d) {
    return d.code == "yaml-syntax" || d.code == "file-size" || d.code == "yaml-documents" ||
           d.code == "not-a-workflow";
  });
  if (readable) check(compiled.loaded.spec, declarations, diagnostics);
  if (!has_errors(diagnostics))
    compiled.plan = compile(compiled.loaded.spec, declarations, diagnostics);
  sort_diagnostics(diagnostics);
  return compiled;
}

void print_diagnostics(const Compiled& compiled) {
  for (const Diagnostic& d : compiled.loaded.diagnostics)
    std::fputs(diagnostic_text(d, compiled.loaded.spec.file, compiled.loaded.text).c_str(), stderr);
}

Result<std::string> model_root(const WorkflowSpec& spec) {
  std::vector<std::string> models;
  for (const RoleSpec& role : spec.roles)
    if (role.model) models.push_back(role.model->text);
  for (const GlobalParamSpec& param : spec.global_params)
    if (param.model) models.push_back(param.model->text);
  std::error_code failed;
  std::vector<fs::path> roots{fs::current_path(failed)};
  for (fs::path at = fs::absolute(spec.file, failed).parent_path();; at = at.parent_path()) {
    roots.push_back(at);
    if (at == at.root_path()) break;
  }
  std::string missing;
  for (const fs::path& root : roots) {
    const auto lacking = std::ranges::find_if(
        models, [&](const std::string& model) { return !fs::is_directory(root / model, failed); });
    if (lacking == models.end()) return root.string();
    if (missing.empty()) missing = *lacking;
  }
  return Error{ErrorCode::not_found, "no directory '" + missing +
                                         "' with the model, neither here nor above " + spec.file};
}

}  // namespace sluice::cli
