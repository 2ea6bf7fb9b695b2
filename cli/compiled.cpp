#include "cli/compiled.h"

#include <cstdio>
#include <filesystem>

#include "cli/file_kind.h"
#include "graph/print.h"
#include "workflows/model_paths.h"

namespace sluice::cli {

Result<Compiled> compile_file(const std::string& path, const WorkflowOptions& options,
                              const Catalog& catalog) {
  if (Result<void> kind = check_is_no_scenario(path); !kind.ok()) return kind.error();
  Result<LoadedWorkflow> loaded = load_workflow_file(path, options.overrides());
  if (!loaded.ok()) return loaded.error();
  Compiled compiled{std::move(loaded).value(), {}};
  compiled.plan = plan_workflow(compiled.loaded, catalog.declarations());
  return compiled;
}

void print_diagnostics(const Compiled& compiled) {
  std::fputs(
      diagnostics_text(compiled.loaded.diagnostics, compiled.loaded.spec.file, compiled.loaded.text)
          .c_str(),
      stderr);
}

void find_models(Compiled& compiled, const Catalog& catalog) {
  LoadedWorkflow& loaded = compiled.loaded;
  if (!loaded.readable) return;
  resolve_models(loaded, process_environment());
  const auto check = [&](const std::optional<Name>& model, const ModelCheck& can_play) {
    std::error_code failed;  // one that is not there was reported
    if (!model.has_value() || !can_play || !std::filesystem::exists(model->text, failed)) return;
    if (const Result<void> fits = can_play(model->text); !fits.ok())
      report(loaded.diagnostics,
             {Severity::error, model->mark, "wrong-model", fits.error().message, ""});
  };
  for (const RoleSpec& role : loaded.spec.roles)
    if (const Plugin* plugin = catalog.find(role.plugin.text))
      check(role.model, plugin->check_model);
  for (const GlobalParamSpec& param : loaded.spec.global_params)
    check(param.model, catalog.model_check_of_kind(param.kind.text));
  name_overrides(loaded);
  sort_diagnostics(loaded.diagnostics);
}

}  // namespace sluice::cli
