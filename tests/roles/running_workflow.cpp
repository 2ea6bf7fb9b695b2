#include "running_workflow.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "graph/check.h"
#include "runtime/runner.h"
#include "tests/directories.h"
#include "workflows/load.h"

namespace sluice {

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

struct RunningWorkflow::Parts {
  Catalog catalog;
  LoadedWorkflow loaded;
  std::optional<Plan> plan;
  std::unique_ptr<Runner> runner;
};

RunningWorkflow::RunningWorkflow(const std::string& name,
                                 const std::vector<std::pair<std::string, std::string>>& changes,
                                 const TextDevice* cuda)
    : parts_(std::make_unique<Parts>()) {
  add_builtin_plugins(parts_->catalog, cuda);
  const std::string root = SLUICE_SOURCE_DIR;
  std::string text = read(root + "/workflows/" + name);
  for (const auto& [from, to] : changes) {
    REQUIRE(text.find(from) != std::string::npos);
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  parts_->loaded = load_workflow(name, text);
  parts_->plan = plan_workflow(parts_->loaded, parts_->catalog.declarations());
  for (const Diagnostic& d : parts_->loaded.diagnostics) UNSCOPED_INFO(d.message);
  REQUIRE(parts_->plan.has_value());
  RunnerOptions options;
  options.root = root;
  auto runner = Runner::create(parts_->loaded.spec, *parts_->plan, parts_->catalog, options);
  if (!runner.ok()) UNSCOPED_INFO(runner.error().message);
  REQUIRE(runner.ok());
  parts_->runner = std::move(runner).value();
}

RunningWorkflow::~RunningWorkflow() = default;

std::string RunningWorkflow::run(Inputs inputs, const std::string& session, Outputs& outputs) {
  CallRequest request;
  request.session = session;
  request.inputs = std::move(inputs);
  const CallOutcome outcome = parts_->runner->call(
      std::move(request), [&](std::string_view output, const PayloadRef& value) {
        outputs[std::string(output)].push_back(value);
      });
  for (const std::string& warning : outcome.warnings) UNSCOPED_INFO(warning);
  CHECK(outcome.warnings.empty());
  return outcome.ok ? "" : outcome.error.message;
}

Outputs RunningWorkflow::call(Inputs inputs, const std::string& session) {
  Outputs outputs;
  CHECK(run(std::move(inputs), session, outputs) == "");
  return outputs;
}

std::string RunningWorkflow::error_of(Inputs inputs, const std::string& session) {
  Outputs outputs;
  return run(std::move(inputs), session, outputs);
}

void RunningWorkflow::end_session(const std::string& session) {
  REQUIRE(parts_->runner->end_session(session).ok());
}

}  // namespace sluice
