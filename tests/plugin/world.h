// A workflow over plugins of a folder, run as a user's program would.
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "plugin/folder.h"
#include "runtime/runner.h"
#include "tests/directories.h"
#include "workflows/load.h"

namespace sluice {

inline std::string built_plugins() {
  return (std::filesystem::path(SLUICE_BINARY_DIR) / "tests/plugin/roles").string();
}

/// `crowd` counts up to a number, stepped, and keeps a tally of each session.
inline const std::string counting = R"(
sluice: 1
workflow: test
calls: overlap
inputs: { upto: number, note: text }
global_params: { tally: { kind: tally } }
roles:
  crowd: { plugin: crowd, global_params: [tally], balance: session, options: { from: 2 } }
nodes:
  count: { run: crowd.count, inputs: [ { upto: inputs.upto, note: inputs.note } ] }
outputs: { said: count.said, strip: count.strip, note: count.note }
)";

/// A folder that goes when the test does; no two have one path, which the loader would remember.
struct Folder {
  static inline int made = 0;
  std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("sluice_plugin_" + std::to_string(::getpid()) + "_" + std::to_string(made++));
  Folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
  }
  std::string str() const { return path.string(); }
};

/// What a call brought: each output as text.
struct Answer {
  CallOutcome outcome;
  std::vector<std::string> outputs;
  /// "node: message", or "ok".
  std::string error() const {
    return outcome.ok ? "ok" : outcome.node + ": " + outcome.error.message;
  }
};

struct World {
  Catalog catalog;
  std::string problems;  // of the folder
  LoadedWorkflow loaded;
  std::string refused;  // by the runner
  std::unique_ptr<Runner> runner;

  World(const std::string& folder, const std::string& workflow, bool run = true,
        const RunnerOptions& options = {}) {
    problems = add_plugins(catalog, folder);
    loaded = load_workflow("test.yaml", workflow);
    const Plan plan = plan_workflow(loaded, catalog.declarations());
    if (!run || !problems.empty() || has_errors(loaded.diagnostics)) return;
    auto made = Runner::create(loaded.spec, plan, catalog, options);
    if (made.ok())
      runner = std::move(made).value();
    else
      refused = made.error().message;
  }
  /// Codes and messages of what is wrong with the workflow.
  std::string diagnostics() const {
    std::string all;
    for (const Diagnostic& d : loaded.diagnostics)
      all += std::to_string(d.mark.line) + ":" + std::to_string(d.mark.column) + " " + d.code +
             ": " + d.message + "\n";
    return all;
  }
  Answer call(CallRequest request) {
    REQUIRE(problems == "");
    REQUIRE(diagnostics() == "");
    REQUIRE(refused == "");
    Answer answer;
    answer.outcome = runner->call(std::move(request), [&](std::string_view, const PayloadRef& v) {
      answer.outputs.push_back(v->type == ValueType::tensor ? v->tensor.describe() : v->text);
    });
    return answer;
  }
};

}  // namespace sluice
