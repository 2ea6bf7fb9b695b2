// `sluice validate FILE...`: everything that is wrong, before anything runs.
#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/compiled.h"
#include "graph/print.h"

namespace sluice::cli {

namespace {

void append(std::string& list, const std::string& item) {
  list += (list.empty() ? "\n" : ",\n") + item;
}

int validate(const std::vector<std::string>& files, const std::string& format,
             const Catalog& catalog) {
  std::string list;
  std::size_t errors = 0;
  std::size_t warnings = 0;
  for (const std::string& file : files) {
    Result<Compiled> compiled = compile_file(file, catalog);
    if (!compiled.ok()) {
      ++errors;
      const Diagnostic unread{Severity::error, {}, "unreadable-file", compiled.error().message, ""};
      if (format == "text") std::fprintf(stderr, "error: %s\n", compiled.error().message.c_str());
      if (format == "json") append(list, diagnostic_json(unread, file));
      if (format == "sarif") append(list, diagnostic_sarif(unread, file));
      continue;
    }
    for (const Diagnostic& d : compiled->loaded.diagnostics) {
      ++(d.severity == Severity::error ? errors : warnings);
      if (format == "text")
        std::fputs(diagnostic_text(d, file, compiled->loaded.text).c_str(), stdout);
      if (format == "json") append(list, diagnostic_json(d, file));
      if (format == "sarif") append(list, diagnostic_sarif(d, file));
    }
  }
  if (format == "json") std::printf("[%s%s]\n", list.c_str(), list.empty() ? "" : "\n");
  if (format == "sarif")
    std::printf(
        "{\"version\":\"2.1.0\",\"$schema\":"
        "\"https://json.schemastore.org/sarif-2.1.0.json\",\"runs\":[{\"tool\":"
        "{\"driver\":{\"name\":\"sluice\"}},\"results\":[%s]}]}\n",
        list.c_str());
  if (format == "text")
    std::printf("%zu file%s, %zu error%s, %zu warning%s\n", files.size(),
                files.size() == 1 ? "" : "s", errors, errors == 1 ? "" : "s", warnings,
                warnings == 1 ? "" : "s");
  return errors == 0 ? 0 : 1;
}

}  // namespace

void add_validate(CLI::App& app, const Catalog& catalog, Chosen& chosen) {
  struct Options {
    std::vector<std::string> files;
    std::string format = "text";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("validate", "Find what is wrong with workflow files");
  command->add_option("files", options->files, "Workflow files (YAML)")->required();
  command->add_option("--format", options->format, "text, json or sarif")
      ->check(CLI::IsMember({"text", "json", "sarif"}));
  command->callback([&catalog, &chosen, options] {
    chosen = [&catalog, options] { return validate(options->files, options->format, catalog); };
  });
}

}  // namespace sluice::cli
