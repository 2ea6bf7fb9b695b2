// A workflow file with the roles and global params of the files that it includes.
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "workflows/load.h"
#include "workflows/load_scenario.h"
#include "workflows/load_tree.h"
#include "workflows/overrides.h"
#include "workflows/yaml_tree.h"

namespace sluice {

namespace {

constexpr std::size_t include_depth_max = 8;
constexpr std::size_t included_files_max = 200;  // of one workflow, each time it is read

/// The same file may be named by two ways.
bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code failed;
  return std::filesystem::weakly_canonical(a, failed) ==
         std::filesystem::weakly_canonical(b, failed);
}

/// Moves a mark of the file's own to those of the file with this number (graph/included.h).
void place(Mark& mark, std::uint32_t file) {
  if (mark.line > 0 && mark.line < included_lines) mark.line += file * included_lines;
}
void place(RoleSpec& role, std::uint32_t file) {
  for (Name* name : {&role.name, &role.plugin}) place(name->mark, file);
  for (auto* name : {&role.model, &role.colocate})
    if (name->has_value()) place((*name)->mark, file);
  for (Name& name : role.global_params) place(name.mark, file);
  for (OptionSpec& option : role.options)
    for (Name* name : {&option.key, &option.value}) place(name->mark, file);
  place(role.idempotent_mark, file);
}
void place(GlobalParamSpec& param, std::uint32_t file) {
  for (Name* name : {&param.name, &param.kind}) place(name->mark, file);
  for (auto* name : {&param.model, &param.ssd})
    if (name->has_value()) place((*name)->mark, file);
  place(param.device_mark, file);
  place(param.host_bytes_mark, file);
  place(param.tenant_pages_mark, file);
}
void place(LoadedWorkflow& loaded, std::uint32_t file) {
  for (RoleSpec& role : loaded.spec.roles) place(role, file);
  for (GlobalParamSpec& param : loaded.spec.global_params) place(param, file);
  for (Name& include : loaded.spec.includes) place(include.mark, file);
  for (Diagnostic& d : loaded.diagnostics) place(d.mark, file);
}

/// The errors of an included file; one that is included twice has them once.
void take_errors(const Diagnostics& from, const IncludedFiles& included, Diagnostics& to) {
  const auto is_same = [&](const Diagnostic& a, const Diagnostic& b) {
    const std::uint32_t at = file_of(a.mark), known = file_of(b.mark);
    if (line_in_file(a.mark) != line_in_file(b.mark) || a.mark.column != b.mark.column ||
        a.message != b.message)
      return false;
    // In no file: of a value that was given beside them.
    if (at == 0 || known == 0) return at == known;
    return is_same_file(included[at - 1].name, included[known - 1].name);
  };
  for (const Diagnostic& d : from)
    if (d.severity == Severity::error &&
        std::ranges::none_of(to, [&](const Diagnostic& known) { return is_same(d, known); }))
      report(to, d);
}

template <typename T>
void import(const std::vector<T>& from, const std::string& file, Mark mark, const char* what,
            std::vector<T>& to, Diagnostics& diagnostics) {
  for (T item : from) {
    const auto same = std::ranges::find(to, item.name.text, [](const T& t) { return t.name.text; });
    if (item.included_from.empty()) item.included_from = file;
    if (same != to.end() && is_same_file(same->included_from, item.included_from)) continue;
    if (same != to.end()) {
      report(diagnostics,
             {Severity::error, mark, "included-twice",
              std::string(what) + " '" + item.name.text + "' of " + file + " is there already",
              "rename one of them, or remove it here"});
      continue;
    }
    to.push_back(std::move(item));
  }
}

/// The text of a file that is included as `written`, or why not and what to do.
Result<std::string> read_included(const std::string& file, const std::string& written,
                                  std::string& help) {
  Result<std::string> text = read_whole_file(file, yaml_bytes_max);
  const std::string other = !text.ok()             ? ""
                            : is_scenario(*text) ? "a scenario"
                            : is_profile(*text)  ? "a profile"
                                                 : "";
  if (text.ok() && other.empty()) return text;
  if (text.ok()) {
    help = "include files of roles and global parameters";
    return invalid_argument(file + ": this is " + other + ", not a workflow");
  }
  help = "the path of an included file is relative to this file";
  if (written.starts_with("~") || written.starts_with("$"))
    help += "; ~ and ${} are not replaced in it";
  return text.error();
}

/// Makes the roles and global params of the included files known in `loaded`.
void include_files(LoadedWorkflow& loaded, const std::filesystem::path& path,
                   std::vector<std::filesystem::path>& open, IncludedFiles& included,
                   Overrides& overrides) {
  std::error_code failed;
  open.push_back(std::filesystem::weakly_canonical(path, failed));
  for (const Name& include : loaded.spec.includes) {
    const auto refuse = [&](const std::string& message, const std::string& suggestion) {
      loaded.spec.unread.roles = loaded.spec.unread.global_params = true;
      report(loaded.diagnostics,
             {Severity::error, include.mark, "bad-include", message, suggestion});
    };
    if (included.size() >= included_files_max) {
      refuse("more than " + std::to_string(included_files_max) + " files are included in all",
             "include each once, from the file that needs it");
      break;
    }
    const std::filesystem::path file = path.parent_path() / include.text;
    const auto canonical = std::filesystem::weakly_canonical(file, failed);
    if (const auto again = std::ranges::find(open, canonical); again != open.end()) {
      std::string circle;
      for (auto at = again; at != open.end(); ++at) circle += at->filename().string() + " -> ";
      refuse("the includes go round in a circle: " + circle + canonical.filename().string(),
             "move what both need into a third file");
      continue;
    }
    if (open.size() > include_depth_max) {
      refuse(in_quotes(include.text) + " is included deeper than " +
                 std::to_string(include_depth_max) + " files",
             "include it from the file that needs it");
      continue;
    }
    std::string help;
    const Result<std::string> text = read_included(file.string(), include.text, help);
    if (!text.ok()) {
      refuse(text.error().message, help);
      continue;
    }
    LoadedWorkflow other =
        load_tree(file.string(), *text, [&](YamlNode& root, Diagnostics& diagnostics) {
          overrides.apply(root, true, diagnostics);
        });
    included.push_back({file.string(), std::move(other.text), include.mark});
    place(other, static_cast<std::uint32_t>(included.size()));
    include_files(other, file, open, included, overrides);
    overrides.name(other.diagnostics);
    if (has_errors(other.diagnostics))
      loaded.spec.unread.roles = loaded.spec.unread.global_params = true;
    take_errors(other.diagnostics, included, loaded.diagnostics);
    WorkflowSpec& spec = loaded.spec;
    import(other.spec.roles, file.string(), include.mark, "the role", spec.roles,
           loaded.diagnostics);
    import(other.spec.global_params, file.string(), include.mark, "the global parameter",
           spec.global_params, loaded.diagnostics);
  }
  open.pop_back();
}

}  // namespace

Result<LoadedWorkflow> load_workflow_file(const std::string& path,
                                          std::vector<Override> overrides) {
  Result<std::string> text = read_whole_file(path, yaml_bytes_max);
  if (!text.ok()) return text.error();
  Overrides all(overrides);
  LoadedWorkflow loaded = load_tree(path, *text, [&](YamlNode& root, Diagnostics& diagnostics) {
    all.apply(root, false, diagnostics);
  });
  std::vector<std::filesystem::path> open;
  all.name(loaded.diagnostics);  // as in the included files, which may say the same
  include_files(loaded, path, open, loaded.included, all);
  all.report_rest(loaded.spec, loaded.diagnostics);
  all.name(loaded.diagnostics);
  loaded.overrides = std::move(overrides);
  return loaded;
}

}  // namespace sluice
