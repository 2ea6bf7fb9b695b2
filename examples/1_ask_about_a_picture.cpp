// Runs a workflow from C++: asks a question about a picture and prints the answer as it is made.
//
//   example_1_ask_about_a_picture [IMAGE] [QUESTION]     (from the repository's root)
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "base/base64.h"
#include "graph/check.h"
#include "runtime/runner.h"
#include "workflows/load.h"

using namespace sluice;

int main(int argc, char** argv) {
  const std::string image = argc > 1 ? argv[1] : "models/scenes/samples/table.png";
  const std::string question = argc > 2 ? argv[2] : "how many shapes are there";

  // The plugins that this program knows.
  Catalog catalog;
  add_builtin_plugins(catalog);

  // A workflow file becomes a spec, is checked, and is compiled to a plan.
  Result<LoadedWorkflow> loaded = load_workflow_file("workflows/image_chat.yaml");
  if (!loaded.ok()) return std::fprintf(stderr, "%s\n", loaded.error().message.c_str()), 1;
  const Declarations declarations = catalog.declarations();
  check(loaded->spec, declarations, loaded->diagnostics);
  Plan plan;
  if (!has_errors(loaded->diagnostics))
    plan = compile(loaded->spec, declarations, loaded->diagnostics);
  for (const Diagnostic& d : loaded->diagnostics)
    std::fprintf(stderr, "line %u: %s\n", d.mark.line, d.message.c_str());
  if (has_errors(loaded->diagnostics)) return 1;

  // The runner loads the models once and then answers any number of calls.
  Result<std::unique_ptr<Runner>> runner = Runner::create(loaded->spec, plan, catalog, {});
  if (!runner.ok()) return std::fprintf(stderr, "%s\n", runner.error().message.c_str()), 1;

  std::ifstream file(image, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const std::string request = R"({"content": [{"type": "image", "data": ")" +
                              base64_encode(bytes) + R"("}, {"type": "text", "text": ")" +
                              question + R"("}]})";
  const CallOutcome outcome = (*runner)->call(
      {.session = "example", .inputs = {{"request", make_json(request)}}},
      [](std::string_view, const PayloadRef& value) {
        std::fputs(value->text.c_str(), stdout);
        std::fflush(stdout);
      });
  std::puts("");
  if (!outcome.ok)
    std::fprintf(stderr, "%s: %s\n", outcome.node.c_str(), outcome.error.message.c_str());
  return outcome.ok ? 0 : 1;
}
