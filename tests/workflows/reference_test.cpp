// docs/WORKFLOW.md cannot rot: its examples are loaded and its tables are the loader's.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "graph/check.h"
#include "graph/plan.h"
#include "roles/catalog.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

std::string reference() {
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/docs/WORKFLOW.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Keys of the table under "### part", first column.
std::vector<std::string> keys_of(const std::string& text, const std::string& part) {
  std::vector<std::string> keys;
  std::size_t at = text.find("### " + part + "\n");
  if (at == std::string::npos) return keys;
  std::istringstream lines(text.substr(at));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.starts_with("#"))
    if (line.starts_with("| `")) keys.push_back(line.substr(3, line.find('`', 3) - 3));
  return keys;
}

}  // namespace

TEST_CASE("the reference lists exactly the keys that the loader knows") {
  const std::string text = reference();
  for (const KeyTable& table : workflow_keys()) {
    INFO(table.part);
    std::vector<std::string> known(table.keys.begin(), table.keys.end());
    std::vector<std::string> listed = keys_of(text, std::string(table.part));
    std::ranges::sort(known);
    std::ranges::sort(listed);
    CHECK(listed == known);
  }
}

TEST_CASE("every example of the reference loads, checks and compiles") {
  const std::string text = reference();
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
