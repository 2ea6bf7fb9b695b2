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
    // What is wrong with it is shown where this file names the other.
    item.name.mark = mark;
    to.push_back(std::move(item));
  }
}

/// The text of a file that is included as `written`, or why not and what to do.
Result<std::string> read_included(const std::string& file, const std::string& written,
                                  std::string& help) {
  Result<std::string> text = read_whole_file(file, yaml_bytes_max);
  if (text.ok() && !is_scenario(*text)) return text;
  if (text.ok()) {
    help = "include files of roles and global parameters";
    return invalid_argument(file + ": this is a scenario, not a workflow");
  }
  help = "the path of an included file is relative to this file";
  if (written.starts_with("~") || written.starts_with("$"))
    help += "; ~ and ${} are not replaced in it";
  return text.error();
}

/// Makes the roles and global params of the included files known in `loaded`.
void include_files(LoadedWorkflow& loaded, const std::filesystem::path& path,
                   std::vector<std::filesystem::path>& open, std::size_t& files,
                   Overrides& overrides) {
  std::error_code failed;
  open.push_back(std::filesystem::weakly_canonical(path, failed));
  for (const Name& include : loaded.spec.includes) {
    const auto refuse = [&](const std::string& message, const std::string& suggestion) {
      loaded.spec.unread.roles = loaded.spec.unread.global_params = true;
      report(loaded.diagnostics,
             {Severity::error, include.mark, "bad-include", message, suggestion});
    };
    if (++files > included_files_max) {
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
    include_files(other, file, open, files, overrides);
    overrides.name(other.diagnostics);
    for (const Diagnostic& d : other.diagnostics)
      if (d.severity == Severity::error)
        refuse(file.string() +
                   (d.mark.line > 0
                        ? ":" + std::to_string(d.mark.line) + ":" + std::to_string(d.mark.column)
                        : "") +
                   ": " + d.message,
               d.suggestion);
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
  std::size_t files = 0;
  include_files(loaded, path, open, files, all);
  all.report_rest(loaded.spec, loaded.diagnostics);
  all.name(loaded.diagnostics);
  loaded.overrides = std::move(overrides);
  return loaded;
}

}  // namespace sluice
