// `sluice validate FILE...`: everything that is wrong, before anything runs.
#include <cstdio>
#include <string>
#include <vector>

#include "base/count_text.h"
#include "base/file.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/compiled.h"
#include "cli/file_kind.h"
#include "graph/print.h"
#include "plugin/folder.h"
#include "workflows/load_manifest.h"
#include "workflows/yaml_tree.h"

namespace sluice::cli {

namespace {

void append(std::string& list, const std::string& item) {
  list += (list.empty() ? "\n" : ",\n") + item;
}

struct Counts {
  std::size_t errors = 0;
  std::size_t warnings = 0;
};

void count(const Diagnostics& diagnostics, Counts& counts) {
  for (const Diagnostic& d : diagnostics)
    ++(d.severity == Severity::error ? counts.errors : counts.warnings);
}

/// Or lacks only the key that says so.
bool names_cluster(const std::string& file) {
  const Result<std::string> text = read_whole_file(file, yaml_bytes_max);
  return text.ok() && (is_cluster(*text) || lacks_cluster(file));
}

/// A cluster's own diagnostics; what is wrong with its workflows stands where it names them.
FileDiagnostics validate_cluster(const std::string& file, bool text, const WorkflowOptions& options,
                                 const Catalog& catalog, Counts& counts) {
  Result<Cluster> cluster = load_cluster_with_workflows(file, options, catalog);
  if (!cluster.ok()) {
    ++counts.errors;
    if (text) std::fprintf(stderr, "error: %s\n", cluster.error().message.c_str());
    return {file, {{Severity::error, {}, "unreadable-file", cluster.error().message, ""}}};
  }
  count(cluster->loaded.diagnostics, counts);
  for (const Compiled& compiled : cluster->workflows) count(compiled.loaded.diagnostics, counts);
  if (text) {
    std::fputs(diagnostics_text(cluster->loaded.diagnostics, file, cluster->loaded.text).c_str(),
               stdout);
    for (const Compiled& compiled : cluster->workflows)
      std::fputs(diagnostics_text(compiled.loaded.diagnostics, compiled.loaded.spec.file,
                                  compiled.loaded.text, compiled.loaded.included)
                     .c_str(),
                 stdout);
  }
  return {file, cluster->loaded.diagnostics};
}

/// A role's manifest in itself, and beside what the program has of its own: one of a folder given
/// by --plugins would be found twice. Whether its code is there, nobody looks.
FileDiagnostics validate_manifest(const std::string& file, bool text, Counts& counts) {
  const Result<std::string> bytes = read_whole_file(file, manifest_bytes_max);
  if (!bytes.ok()) {
    ++counts.errors;
    if (text) std::fprintf(stderr, "error: %s\n", bytes.error().message.c_str());
    return {file, {{Severity::error, {}, "unreadable-file", bytes.error().message, ""}}};
  }
  LoadedManifest loaded = load_manifest(*bytes);
  Catalog ours;
  add_builtin_plugins(ours);
  check_manifest_place(ours, file, loaded);
  count(loaded.diagnostics, counts);
  if (text) std::fputs(diagnostics_text(loaded.diagnostics, file, loaded.text).c_str(), stdout);
  return {file, loaded.diagnostics};
}

/// One file's diagnostics, printed at once when they are for people.
FileDiagnostics validate_file(const std::string& file, bool text, const WorkflowOptions& options,
                              const Catalog& catalog, Counts& counts) {
  if (names_cluster(file)) return validate_cluster(file, text, options, catalog, counts);
  if (is_manifest(file)) return validate_manifest(file, text, counts);
  Result<Compiled> compiled = compile_file(file, options, catalog);
  if (!compiled.ok()) {
    ++counts.errors;
    const std::string& message = compiled.error().message;
    if (text) std::fprintf(stderr, "error: %s\n", message.c_str());
    return {file, {{Severity::error, {}, "unreadable-file", message, ""}}};
  }
  find_models(*compiled, catalog, Runs::here);
  const Diagnostics& diagnostics = compiled->loaded.diagnostics;
  count(diagnostics, counts);
  if (text) {
    std::fputs(diagnostics_text(diagnostics, file, compiled->loaded.text, compiled->loaded.included)
                   .c_str(),
               stdout);
    if (compiled->ok() && compiled->loaded.spec.is_library)
      std::printf("%s: roles for other workflows to include; it has no nodes of its own\n",
                  file.c_str());
  }
  return {file, diagnostics, compiled->loaded.included};
}

int validate(const std::vector<std::string>& files, const std::string& format,
             const WorkflowOptions& options, const Catalog& catalog) {
  Counts counts;
  std::vector<FileDiagnostics> all;
  for (const std::string& file : files)
    all.push_back(validate_file(file, format == "text", options, catalog, counts));
  if (format == "json") {
    std::string list;
    for (const FileDiagnostics& file : all)
      for (const Diagnostic& d : file.diagnostics)
        append(list, diagnostic_json(d, file.file, file.included));
    std::printf("[%s%s]\n", list.c_str(), list.empty() ? "" : "\n");
  }
  if (format == "sarif") std::fputs(diagnostics_sarif(all).c_str(), stdout);
  if (format == "text")
    std::printf("%s, %s, %s\n", count_text(files.size(), "file").c_str(),
                count_text(counts.errors, "error").c_str(),
                count_text(counts.warnings, "warning").c_str());
  return counts.errors == 0 ? 0 : 1;
}

}  // namespace

void add_validate(Command app, const Catalog& catalog, Chosen& chosen) {
  struct Options {
    std::vector<std::string> files;
    std::string format = "text";
    WorkflowOptions workflow;
  };
  auto options = std::make_shared<Options>();
  Command command = app.add_subcommand(
      "validate", "Find what is wrong with workflows, cluster files and manifests");
  command
      .add_option("files", options->files,
                  "Workflow files, cluster files and manifests of roles (YAML)")
      .required();
  command.add_option("--format", options->format, "text, json or sarif")
      .one_of({"text", "json", "sarif"});
  add_workflow_options(command, options->workflow);
  command.callback([&catalog, &chosen, options] {
    chosen = [&catalog, options] {
      return validate(options->files, options->format, options->workflow, catalog);
    };
  });
}

}  // namespace sluice::cli
