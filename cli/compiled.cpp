#include "cli/compiled.h"

#include <cstdio>

#include "cli/file_kind.h"
#include "graph/print.h"
#include "roles/check_models.h"
#include "workflows/model_paths.h"

namespace sluice::cli {

Result<Compiled> compile_file(const std::string& path, const WorkflowOptions& options,
                              const Catalog& catalog) {
  if (Result<void> kind = check_is_workflow(path); !kind.ok()) return kind.error();
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
  check_models(loaded.spec, catalog, loaded.diagnostics);
  name_overrides(loaded);
  sort_diagnostics(loaded.diagnostics);
}

}  // namespace sluice::cli
