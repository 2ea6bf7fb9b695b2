// Every author error has a file and the exact message that its author sees.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/random.h"
#include "graph/check.h"
#include "graph/plan.h"
#include "graph/print.h"
#include "roles/catalog.h"
#include "tests/directories.h"
#include "workflows/load.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

const fs::path folder = fs::path(SLUICE_SOURCE_DIR) / "tests/workflows/errors";

Declarations declarations() {
  Catalog catalog;
  add_builtin_plugins(catalog);
  Declarations all = catalog.declarations();
  PluginDeclaration scripted;
  scripted.name = "scripted";
  scripted.any_ports = true;
  all.push_back(scripted);
  return all;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Diagnostics diagnose(const std::string& name, std::string_view text) {
  LoadedWorkflow loaded = load_workflow(name, text);
  plan_workflow(loaded, declarations());
  return loaded.diagnostics;
}

std::string shown(const std::string& name, std::string_view text) {
  std::string all;
  for (const Diagnostic& d : diagnose(name, text)) all += diagnostic_text(d, name, text);
  return all;
}

std::vector<fs::path> cases() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace

TEST_CASE("every author error gives its golden message, at the line the file expects") {
  const bool rewrite = std::getenv("SLUICE_REWRITE") != nullptr;
  REQUIRE(cases().size() >= 40);
  for (const fs::path& path : cases()) {
    const std::string text = read(path);
    const std::string name = path.filename().string();
    INFO(name);
    const std::string message = shown(name, text);
    fs::path golden = path;
    golden.replace_extension(".txt");
    if (rewrite) std::ofstream(golden, std::ios::binary) << message;
    CHECK(message == read(golden));
    const std::size_t at = text.find("# expect: ");
    REQUIRE(at != std::string::npos);
    const std::string line = text.substr(at + 10, text.find('\n', at) - at - 10);
    CHECK(message.find(name + ":" + line + ":") != std::string::npos);
  }
}

TEST_CASE("one mistake is one error, and nothing that follows from it") {
  std::size_t count = 0;
  for (const fs::path& path : cases()) {
    if (!path.filename().string().starts_with("once_")) continue;
    ++count;
    INFO(path.filename().string());
    CHECK(diagnose(path.filename().string(), read(path)).size() == 1);
  }
  CHECK(count >= 14);
}

TEST_CASE("of a file with too many values only that is said") {
  std::string text = "sluice: 1\nworkflow: w\ninputs: { a: text, b: [";
  for (int i = 0; i < 100'001; ++i) text += "x,";
  const Diagnostics found = diagnose("many.yaml", text + "] }\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == "yaml-size");
}

TEST_CASE("a planted change of a message is seen") {
  const std::string text = read(folder / "unknown_node.yaml");
  std::string other = text;
  other.replace(other.find("embd"), 4, "embb");
  CHECK(shown("unknown_node.yaml", other) != read(folder / "unknown_node.txt"));
}

TEST_CASE("the shipped workflows are without errors and warnings") {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(SLUICE_SOURCE_DIR) / "workflows")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    INFO(entry.path());
    CHECK(shown(entry.path().filename().string(), read(entry.path())).empty());
  }
  CHECK(count >= 1);
}

TEST_CASE("no change of bytes in a workflow makes the loader crash") {
  const std::string text = read(fs::path(SLUICE_SOURCE_DIR) / "workflows/image_chat.yaml");
  SplitMix64 random(1);
  std::size_t wrong = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string changed = text;
    for (std::uint64_t n = random.next() % 4 + 1; n > 0; --n) {
      const std::size_t at = random.next() % changed.size();
      switch (random.next() % 4) {
        case 0:
          changed[at] = static_cast<char>(random.next());
          break;
        case 1:
          changed.erase(at, random.next() % 8 + 1);
          break;
        case 2:
          changed.insert(at, 1, "{}[]:,&*!|>'\"%@`#-?\n\t "[random.next() % 23]);
          break;
        default:
          changed.resize(at + 1);
      }
    }
    wrong += has_errors(diagnose("changed.yaml", changed)) ? 1 : 0;
  }
  CHECK(wrong > 1000);
}

TEST_CASE("nesting without end is refused, not followed") {
  for (const std::size_t depth : {70U, 400U, 100'000U}) {
    const std::string text = "sluice: 1\nnodes: " + std::string(depth, '[');
    CHECK(has_errors(diagnose("deep.yaml", text)));
  }
  const Diagnostics found =
      diagnose("deep.yaml", "sluice: " + std::string(100, '[') + std::string(100, ']'));
  CHECK(std::ranges::count(found, "yaml-depth", &Diagnostic::code) == 1);
  // Below what the parser follows, too: at the key that is one too many.
  std::string block = "sluice: 1\n";
  for (std::size_t i = 0; i < 600; ++i) block += std::string(i, ' ') + "a:\n";
  const Diagnostics below = diagnose("deep.yaml", block);
  REQUIRE(below.size() == 1);
  CHECK(below.front().code == "yaml-depth");
  CHECK(below.front().mark.line == 66);
}

TEST_CASE("diagnostics as JSON escape what needs it") {
  const Diagnostic d{Severity::warning, {3, 4, 1}, "a-code", "say \"hi\"\n\xff", "do"};
  CHECK(diagnostic_json(d, "f.yaml") ==
        R"({"file":"f.yaml","line":3,"column":4,"severity":"warning","code":"a-code",)"
        R"("message":"say \"hi\"\u000a\ufffd","suggestion":"do"})");
}
