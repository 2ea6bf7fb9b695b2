// docs/WORKFLOW.md cannot rot: its examples are loaded and its tables are the loader's.
#include "tests/reference.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "graph/check.h"
#include "graph/plan.h"
#include "roles/catalog.h"
#include "workflows/load.h"

using namespace sluice;

TEST_CASE("the reference lists exactly the keys that the loader knows") {
  const std::string text = test::reference("WORKFLOW.md");
  for (const KnownKeys& table : workflow_keys()) {
    INFO(table.part);
    std::vector<std::string> known(table.keys.begin(), table.keys.end());
    std::vector<std::string> listed = test::keys_of(text, std::string(table.part));
    std::ranges::sort(known);
    CHECK(listed == known);
  }
}

TEST_CASE("every example of the reference loads, checks and compiles") {
  const std::string text = test::reference("WORKFLOW.md");
  Catalog catalog;
  add_builtin_plugins(catalog);
  Declarations declarations = catalog.declarations();
  PluginDeclaration scripted;
  scripted.name = "scripted";
  scripted.any_ports = true;
  declarations.push_back(scripted);
  std::size_t examples = 0;
  const std::string fence = "```yaml\n";
  for (std::size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at + 1)) {
    const std::size_t begin = at + fence.size();
    LoadedWorkflow loaded =
        load_workflow("example", text.substr(begin, text.find("```", begin) - begin));
    check(loaded.spec, declarations, loaded.diagnostics);
    if (!has_errors(loaded.diagnostics)) compile(loaded.spec, declarations, loaded.diagnostics);
    for (const Diagnostic& d : loaded.diagnostics) {
      INFO(d.message);
      CHECK(d.severity == Severity::warning);
    }
    ++examples;
  }
  CHECK(examples >= 3);
}
