// `sluice test PATH...`: a workflow's own tests, without models.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/commands.h"
#include "cli/file_kind.h"
#include "cli/option_checks.h"
#include "cli/scenario_run.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

struct TestOptions {
  std::vector<std::string> paths;
  Seeds seeds;
  bool json = false;
  WorkflowOptions workflow;
};

bool holds_scenario(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return is_scenario(text.str());
}

/// Files as they are; of a folder all scenarios below it, in order of their names.
Result<std::vector<std::string>> scenarios_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const std::string& path : paths) {
    if (!fs::exists(path, failed))
      return Error{ErrorCode::not_found, path + ": no such file or folder"};
    if (!fs::is_directory(path, failed)) {
      if (Result<void> kind = check_is_scenario(path); !kind.ok()) return kind.error();
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(path, failed)) {
      const std::string extension = entry.path().extension().string();
      if (entry.is_regular_file(failed) && (extension == ".yaml" || extension == ".yml") &&
          holds_scenario(entry.path()))
        found.push_back(entry.path().string());
    }
    if (found.empty())
      return Error{ErrorCode::not_found,
                   path + ": no scenario below it (a YAML file that begins with `scenario:`)"};
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

int test(const TestOptions& options, const Catalog& catalog) {
  Result<std::vector<std::string>> files = scenarios_of(options.paths);
  if (!files.ok()) return fail(files.error().message);
  std::size_t passed = 0;
  std::uint64_t events = 0;
  for (const std::string& file : *files) {
    const ScenarioRun run = run_scenario(file, options.workflow, catalog, options.seeds);
    const bool ok = run.failures.empty();
    passed += ok ? 1 : 0;
    events += run.events;
    std::fputs(run.diagnostics.c_str(), stderr);
    if (options.json) {
      std::puts(scenario_json(run).c_str());
      std::fflush(stdout);
      continue;
    }
    std::printf("%s  %s  %s\n", ok ? "ok    " : "FAILED", file.c_str(), run.name.c_str());
    for (const std::string& failure : run.failures) std::printf("        %s\n", failure.c_str());
    for (std::size_t i = 0; i < run.report.calls.size(); ++i)
      for (const std::string& warning : run.report.calls[i].warnings)
        std::printf("        call %zu warns: %s\n", i, warning.c_str());
    std::fflush(stdout);
  }
  if (!options.json)
    std::printf("%zu of %zu scenarios passed, %llu seeds each, %llu events\n", passed,
                files->size(), static_cast<unsigned long long>(options.seeds.count),
                static_cast<unsigned long long>(events));
  return passed == files->size() ? 0 : 1;
}

}  // namespace

void add_test(CLI::App& app, const Catalog& catalog, Chosen& chosen) {
  auto options = std::make_shared<TestOptions>();
  CLI::App* command = app.add_subcommand(
      "test", "Run the scenarios of workflows under many orders of events, without models");
  command->add_option("paths", options->paths, "Scenario files, or folders to search")->required();
  command->add_option("--seeds", options->seeds.count, "How many orders of events to try")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000'000}));
  command->add_option("--seed", options->seeds.first, "The first seed, to repeat a failure")
      ->check(not_negative);
  command->add_flag("--json", options->json, "One JSON object per scenario and line");
  add_workflow_options(*command, options->workflow);
  command->callback([&catalog, &chosen, options] {
    chosen = [&catalog, options] { return test(*options, catalog); };
  });
}

}  // namespace sluice::cli
