#include "workflows/model_paths.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/nearest.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

/// One `${...}`, its braces taken off.
Result<std::string> expand_variable(std::string_view text, const Environment& environment) {
  const std::size_t minus = text.find(":-");
  const std::string name(text.substr(0, minus));
  const auto in_name = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  if (name.empty() || (name[0] >= '0' && name[0] <= '9') || !std::ranges::all_of(name, in_name))
    return invalid_argument(in_quotes("${" + std::string(text) + "}") +
                            " names no variable of the environment");
  const std::optional<std::string> value = environment(name);
  if (value.has_value() && !value->empty()) return *value;
  if (minus != std::string_view::npos) return std::string(text.substr(minus + 2));
  return invalid_argument("the variable " + in_quotes(name) +
                          " of the environment is not set, and there is no default");
}

/// A checkpoint's directory, or a file that holds all of one.
bool is_model(const fs::path& path) {
  std::error_code failed;
  return fs::is_directory(path, failed) ||
         (path.extension() == ".gguf" && fs::is_regular_file(path, failed));
}

/// One spelling of it: the roles and parameters over one checkpoint are compared by it.
fs::path plain(const fs::path& path) {
  const fs::path made = path.lexically_normal();
  return made.has_filename() ? made : made.parent_path();
}

/// Where a relative path is looked for, in order: here, beside the file and above it.
std::vector<fs::path> roots_of(const std::string& file) {
  std::error_code failed;
  std::vector<fs::path> roots{fs::current_path(failed)};
  for (fs::path at = fs::absolute(file, failed).parent_path();; at = at.parent_path()) {
    roots.push_back(at);
    if (at == at.root_path()) return roots;
  }
}

/// The first of the current directory, the file's own and those above it that holds the path.
std::optional<fs::path> directory_of(const fs::path& path, const std::string& file) {
  if (path.empty()) return std::nullopt;  // not the directory that we are in
  if (path.is_absolute()) return is_model(path) ? std::optional(plain(path)) : std::nullopt;
  for (const fs::path& root : roots_of(file))
    if (is_model(root / path)) return plain(root / path);
  return std::nullopt;
}

/// Why it cannot be known whether a checkpoint is there; empty: it is not, or is.
std::string why_unknown(const fs::path& path, const std::string& file) {
  for (const fs::path& root : roots_of(file))
    if (const Result<bool> there = is_there((root / path).string()); !there.ok())
      return there.error().message;
  return "";
}

/// The path with its last part as a checkpoint beside it is called; empty: none is near.
std::string nearest_model(const fs::path& path, const std::string& file) {
  constexpr std::size_t looked_at_max = 1000;
  std::error_code failed, ignored;
  for (const fs::path& root : roots_of(file)) {
    std::vector<std::string> names;
    fs::directory_iterator entries((root / path).parent_path(), failed);
    for (; !failed && entries != fs::directory_iterator() && names.size() < looked_at_max;
         entries.increment(failed))
      if (entries->path().extension() == ".gguf" ||
          fs::exists(entries->path() / "config.json", ignored))
        names.push_back(entries->path().filename().string());
    std::ranges::sort(names);
    const std::string near = nearest_name(path.filename().string(), {names.begin(), names.end()});
    if (!near.empty()) return (path.parent_path() / near).string();
  }
  return "";
}

/// What to write in place of a path at which there is no model.
std::string path_help(const std::string& path, const std::string& file) {
  std::error_code failed;
  if (fs::is_regular_file(path, failed))
    return "this is a file: name the checkpoint's directory, or a .gguf file";
  if (path.starts_with("\xe2\x80\x9c") || path.starts_with("\xe2\x80\x98"))
    return "remove the typographic quotes: they are taken for a part of the path";
  if (path.find('$') != std::string::npos)
    return "a variable of the environment is written \"${NAME}\", in double quotes within { }";
  if (path.starts_with("http://") || path.starts_with("https://"))
    return "nothing is downloaded: fetch the checkpoint, and write the path of its directory";
  if (const std::string near = nearest_model(path, file); !near.empty())
    return "did you mean " + in_quotes(near) + "?";
  return "write where the checkpoint is on this machine (nothing is downloaded): a path, ~/path or "
         "${NAME:-path}";
}

/// What is wrong with a path is wrong wherever it is named, and is said once, at the first place.
class Mistakes {
 public:
  void add(Diagnostic found) {
    const auto known =
        std::ranges::find(all_, found.message, [](const Known& one) { return one.first.message; });
    if (known == all_.end()) {
      all_.push_back({std::move(found), 1});
      return;
    }
    ++known->places;
    if (std::pair(found.mark.line, found.mark.column) <
        std::pair(known->first.mark.line, known->first.mark.column))
      known->first.mark = found.mark;
  }
  void report_to(Diagnostics& diagnostics) {
    for (auto& [first, places] : all_) {
      if (places > 1) first.message += " (named in " + std::to_string(places) + " places)";
      report(diagnostics, std::move(first));
    }
  }

 private:
  struct Known {
    Diagnostic first;
    std::size_t places = 0;
  };
  std::vector<Known> all_;
};

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Result<std::string> expand_path(std::string_view path, const Environment& environment) {
  std::string expanded;
  if (path == "~" || path.starts_with("~/")) {
    const std::optional<std::string> home = environment("HOME");
    if (!home.has_value() || home->empty())
      return invalid_argument("'~' needs HOME in the environment, which is not set");
    expanded = *home;
    path.remove_prefix(1);
  }
  for (std::size_t at = path.find("${"); at != std::string_view::npos; at = path.find("${")) {
    const std::size_t end = path.find('}', at);
    if (end == std::string_view::npos)
      return invalid_argument("the '${' of " + in_quotes(path) + " is not closed");
    Result<std::string> value = expand_variable(path.substr(at + 2, end - at - 2), environment);
    if (!value.ok()) return value.error();
    expanded += std::string(path.substr(0, at)) + *value;
    path.remove_prefix(end + 1);
  }
  return expanded + std::string(path);
}

void resolve_models(LoadedWorkflow& loaded, const Environment& environment) {
  Mistakes mistakes;
  const auto resolve = [&](std::optional<Name>& model) {
    if (!model.has_value() || (model->text.empty() && model->mark.line + model->mark.column == 0))
      return;  // none, or refused
    const Result<std::string> path = expand_path(model->text, environment);
    if (!path.ok())
      return mistakes.add(
          {Severity::error, model->mark, "bad-model-path", path.error().message,
           path.error().message.ends_with("is not closed") ? "write the closing }"
           : path.error().message.ends_with("names no variable of the environment")
               ? "write a path, or \"${NAME:-path}\" with a name of letters, digits "
                 "and _; a model comes from no node or input"
               : "set it, or write ${NAME:-default}"});
    if (const auto found = directory_of(*path, loaded.spec.file)) {
      model->text = found->string();
      return;
    }
    if (const std::string why = why_unknown(*path, loaded.spec.file); !why.empty())
      return mistakes.add({Severity::error, model->mark, "no-such-model", why,
                           "write where a checkpoint is that this user may read"});
    mistakes.add(
        {Severity::error, model->mark, "no-such-model",
         "there is no directory " + in_quotes(*path) + " with the model" +
             (fs::path(*path).is_absolute() ? ""
                                            : ", neither here nor beside the workflow or above it"),
         path_help(*path, loaded.spec.file)});
  };
  for (RoleSpec& role : loaded.spec.roles) resolve(role.model);
  for (GlobalParamSpec& param : loaded.spec.global_params) {
    resolve(param.model);
    if (param.ssd.has_value())
      param.ssd->text =
          (fs::path(loaded.spec.file).parent_path() / param.ssd->text).lexically_normal().string();
  }
  mistakes.report_to(loaded.diagnostics);
  name_overrides(loaded);
}

}  // namespace sluice
