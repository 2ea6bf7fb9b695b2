// `sluice test PATH...`: a workflow's own tests, without models.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/count_text.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/file_kind.h"
#include "cli/scenario_run.h"
#include "graph/print.h"

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

struct Found {
  std::string file;
  bool in_folder = false;  // it was searched for, not named
};

/// All scenarios below a folder, in order of their names.
Result<std::vector<std::string>> scenarios_below(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code failed, ignored;
  for (fs::recursive_directory_iterator at(folder, failed);
       !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    const std::string extension = at->path().extension().string();
    if (at->is_regular_file(ignored) && (extension == ".yaml" || extension == ".yml") &&
        holds_scenario(at->path()))
      found.push_back(at->path().string());
  }
  if (failed)
    return invalid_argument(folder + ": a folder of it cannot be read: " + failed.message() +
                            "; name the files instead");
  if (found.empty())
    return Error{ErrorCode::not_found,
                 folder + ": no scenario below it (a YAML file that begins with `scenario:`)"};
  std::ranges::sort(found);
  return found;
}

/// Files as they are; of a folder all scenarios below it, in order of their names.
Result<std::vector<Found>> scenarios_of(const std::vector<std::string>& paths) {
  std::vector<Found> files;
  std::error_code failed;
  for (const std::string& path : paths) {
    const Result<bool> there = is_there(path);
    if (!there.ok()) return there.error();
    if (!*there) return Error{ErrorCode::not_found, path + ": no such file or folder"};
    if (!fs::is_directory(path, failed)) {
      if (Result<void> kind = check_is_scenario(path); !kind.ok()) return kind.error();
      files.push_back({path, false});
      continue;
    }
    Result<std::vector<std::string>> found = scenarios_below(path);
    if (!found.ok()) return found.error();
    for (std::string& file : *found) files.push_back({std::move(file), true});
  }
  return files;
}

/// How many scenarios came to what.
struct Tally {
  std::size_t passed = 0, failed = 0;
  bool stopped = false;     // some before all their seeds
  std::size_t skipped = 0;  // found in a folder, and --set is not for their workflows
  std::uint64_t events = 0;
};

bool yields(const NodeScriptSpec& script, const std::string& field) {
  for (const YieldsSpec& turn : script.by_iteration)
    for (const std::vector<Name>& frame : turn)
      if (std::ranges::find(frame, field, &Name::text) != frame.end()) return true;
  return false;
}

/// Counts whose number the scenario does not give, as warnings: they are 0, so nothing is counted.
std::string unsaid_counts(const ScenarioRun& run) {
  if (!run.ran) return "";
  std::string text;
  for (const PlanNode& node : run.plan.nodes)
    for (const PlanGroup& group : node.groups)
      for (const PlanCount& count : group.counts) {
        if (count.kind != PlanCount::Kind::runtime) continue;
        const PlanNode& from = run.plan.nodes[run.plan.edges[count.source].from];
        if (from.id == entry_node) continue;
        const std::string& field = from.outputs[count.source_field];
        Mark mark{1, 1, 1};
        bool said = false;
        for (const NodeScriptSpec& script : run.loaded.spec.nodes) {
          if (script.node.text != from.name) continue;
          mark = script.node.mark;
          // One that fails, or whose frames do not hold it, leaves it out on purpose.
          said = script.fail || (!script.by_iteration.empty() && !yields(script, field)) ||
                 std::ranges::any_of(script.values,
                                     [&](const auto& value) { return value.first.text == field; });
        }
        if (said) continue;
        const Diagnostic unsaid{Severity::warning, mark, "unsaid-count",
                                "node '" + node.name + "' counts by " + from.name + "." + field +
                                    ", a number that no `values` give: it is 0, or never comes",
                                "nodes: { " + from.name + ": { values: { " + field + ": 1 } } }"};
        text += diagnostic_text(unsaid, run.file, run.loaded.text);
      }
  return text;
}

void print_run(const ScenarioRun& run, bool skipped) {
  const bool ok = run.failures.empty();
  const char* const how = skipped ? "skipped" : ok ? "ok    " : "FAILED";
  std::printf("%s  %s%s%s\n", how, run.file.c_str(), run.name.empty() ? "" : "  ",
              run.name.c_str());
  if (skipped) {
    std::printf("        %s\n", run.lacks.c_str());
    return;
  }
  for (const std::string& failure : run.failures) std::printf("        %s\n", failure.c_str());
  if (!run.stopped.empty()) std::printf("        %s\n", run.stopped.c_str());
  for (std::size_t i = 0; i < run.report.calls.size(); ++i)
    for (const std::string& warning : run.report.calls[i].warnings)
      std::printf("        call %zu warns: %s\n", i + 1, warning.c_str());
}

void print_tally(const Tally& tally, const Seeds& seeds) {
  std::printf("%zu of %zu scenarios passed, %s%s each, %s", tally.passed,
              tally.passed + tally.failed, tally.stopped ? "up to " : "",
              count_text(seeds.count, "seed").c_str(), count_text(tally.events, "event").c_str());
  if (tally.skipped != 0)
    std::printf("; %zu skipped, whose workflows have not what --set names", tally.skipped);
  std::puts("");
}

int test(const TestOptions& options, const Catalog& catalog) {
  Result<std::vector<Found>> files = scenarios_of(options.paths);
  if (!files.ok()) return fail(files.error().message);
  Tally tally;
  std::string lacks, diagnostics;  // of a skipped one whose workflow has most of the path
  for (const auto& [file, in_folder] : *files) {
    const ScenarioRun run = run_scenario(file, options.workflow, catalog, options.seeds);
    // A folder holds scenarios of several workflows: --set goes to those that it is for.
    const bool skipped = in_folder && !run.lacks.empty();
    ++(skipped ? tally.skipped : run.failures.empty() ? tally.passed : tally.failed);
    tally.events += run.events;
    tally.stopped = tally.stopped || !run.stopped.empty();
    if (skipped && run.lacks.size() > lacks.size()) {
      lacks = run.lacks;
      diagnostics = run.diagnostics;
    }
    if (!skipped) std::fputs((run.diagnostics + unsaid_counts(run)).c_str(), stderr);
    if (options.json)
      std::puts(scenario_json(run, skipped).c_str());
    else
      print_run(run, skipped);
    std::fflush(stdout);
  }
  if (!options.json) print_tally(tally, options.seeds);
  if (tally.skipped == files->size()) {
    std::fputs(diagnostics.c_str(), stderr);
    return fail("no scenario was run: " + lacks);
  }
  return tally.failed == 0 ? 0 : 1;
}

}  // namespace

void add_test(Command app, const Catalog& catalog, Chosen& chosen) {
  auto options = std::make_shared<TestOptions>();
  Command command = app.add_subcommand(
      "test", "Run the scenarios of workflows under many orders of events, without models");
  command.add_option("paths", options->paths, "Scenario files, or folders to search").required();
  command.add_option("--seeds", options->seeds.count, "How many orders of events to try")
      .check(Range(std::uint64_t{1}, std::uint64_t{100'000'000}));
  command.add_option("--seed", options->seeds.first, "The first seed, to repeat a failure");
  command.add_flag("--json", options->json, "One JSON object per scenario and line");
  add_workflow_options(command, options->workflow);
  command.callback([&catalog, &chosen, options] {
    chosen = [&catalog, options] { return test(*options, catalog); };
  });
}

}  // namespace sluice::cli
