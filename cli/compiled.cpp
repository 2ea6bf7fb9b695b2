#include "cli/compiled.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "cli/file_kind.h"
#include "cli/output_files.h"
#include "graph/print.h"
#include "roles/check_models.h"
#include "workflows/model_paths.h"

namespace sluice::cli {

namespace {

bool same(const Diagnostic& a, const Diagnostic& b) {
  return a.mark.line == b.mark.line && a.mark.column == b.mark.column && a.code == b.code &&
         a.message == b.message;
}

void show_behind(Diagnostic& d, const Override& override) {
  d.message = "--set " + override.path + "=" + override.value + ": " + d.message;
  d.mark = {};
}

/// What an override brings about elsewhere in the file is shown behind it: the file's line says
/// what the override replaces. It is the first with which the error is there.
void name_causes(Diagnostics& diagnostics, const std::string& path,
                 const std::vector<Override>& overrides, const Catalog& catalog) {
  std::vector<Diagnostic*> open;
  for (Diagnostic& d : diagnostics)
    if (d.mark.line > 0) open.push_back(&d);
  for (std::size_t count = 0; count < overrides.size() && !open.empty(); ++count) {
    Result<LoadedWorkflow> loaded = load_workflow_file(
        path, std::vector<Override>(overrides.begin(),
                                    overrides.begin() + static_cast<std::ptrdiff_t>(count)));
    if (!loaded.ok()) return;
    plan_workflow(*loaded, catalog.declarations());
    // Of a file with errors nothing is warned of, and one error can hide others: what overrides
    // that mend it let be seen is not their doing.
    if (count == 0 && has_errors(loaded->diagnostics)) {
      const bool mends = std::ranges::any_of(loaded->diagnostics, [&](const Diagnostic& before) {
        return std::ranges::none_of(diagnostics,
                                    [&](const Diagnostic& now) { return same(before, now); });
      });
      std::erase_if(
          open, [mends](const Diagnostic* d) { return mends || d->severity == Severity::warning; });
    }
    std::erase_if(open, [&](Diagnostic* d) {
      const bool was_there = std::ranges::any_of(
          loaded->diagnostics, [&](const Diagnostic& other) { return same(*d, other); });
      if (was_there && count > 0) show_behind(*d, overrides[count - 1]);
      return was_there;
    });
  }
  for (Diagnostic* d : open) show_behind(*d, overrides.back());
  sort_diagnostics(diagnostics);
}

}  // namespace

std::vector<std::string> Compiled::files() const {
  std::vector<std::string> files{loaded.spec.file};
  for (const IncludedFile& included : loaded.included) files.push_back(included.name);
  const auto add = [&](const std::optional<Name>& model) {
    if (!model.has_value()) return;
    const std::vector<std::string> more = files_below(model->text);
    files.insert(files.end(), more.begin(), more.end());
  };
  for (const RoleSpec& role : loaded.spec.roles) add(role.model);
  for (const GlobalParamSpec& param : loaded.spec.global_params) add(param.model);
  return files;
}

Result<Compiled> compile_file(const std::string& path, const WorkflowOptions& options,
                              const Catalog& catalog) {
  if (Result<void> kind = check_is_workflow(path); !kind.ok()) return kind.error();
  const std::vector<Override> overrides = options.overrides();
  Result<LoadedWorkflow> loaded = load_workflow_file(path, overrides);
  if (!loaded.ok()) return loaded.error();
  Compiled compiled{std::move(loaded).value(), {}};
  compiled.plan = plan_workflow(compiled.loaded, catalog.declarations());
  if (!overrides.empty() && !compiled.loaded.diagnostics.empty())
    name_causes(compiled.loaded.diagnostics, path, overrides, catalog);
  return compiled;
}

void print_diagnostics(const Compiled& compiled) {
  std::fputs(diagnostics_text(compiled.loaded.diagnostics, compiled.loaded.spec.file,
                              compiled.loaded.text, compiled.loaded.included)
                 .c_str(),
             stderr);
}

void find_models(Compiled& compiled, const Catalog& catalog, Runs runs) {
  LoadedWorkflow& loaded = compiled.loaded;
  if (!loaded.readable) return;
  resolve_models(loaded, process_environment());
  check_models(loaded.spec, catalog, loaded.diagnostics);
  if (runs == Runs::here) check_page_folders(loaded.spec, loaded.diagnostics);
  name_overrides(loaded);
  sort_diagnostics(loaded.diagnostics);
}

}  // namespace sluice::cli
