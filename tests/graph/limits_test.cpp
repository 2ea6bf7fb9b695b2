// What the tables of a plan have room for, and that the order of declaration has no part in it.
#include <algorithm>
#include <catch2/catch.hpp>

#include "graph/check.h"
#include "harness.h"
#include "workflows/load.h"

using namespace sluice;
using sluice::testing::Harness;

namespace {

std::string head(const std::string& inputs = "q: json") {
  return "sluice: 1\nworkflow: limits\ninputs: { " + inputs +
         " }\nroles: { r: { plugin: scripted }, s: { plugin: scripted, balance: session } }\n"
         "nodes:\n  a: { run: r.a, inputs: [ { x: inputs.q } ] }\n";
}

Diagnostics errors_of(const std::string& text) {
  LoadedWorkflow loaded = load_workflow("limits.yaml", text);
  const Declarations declarations = testing::scripted();
  check(loaded.spec, declarations, loaded.diagnostics);
  (void)compile(loaded.spec, declarations, loaded.diagnostics);
  std::erase_if(loaded.diagnostics,
                [](const Diagnostic& d) { return d.severity != Severity::error; });
  return loaded.diagnostics;
}

std::string outputs(std::size_t count) {
  std::string text = "outputs:\n";
  for (std::size_t i = 0; i < count; ++i)
    text += "  o" + std::to_string(i) + ": a.f" + std::to_string(i) + "\n";
  return text;
}

}  // namespace

TEST_CASE("a node has 64 output fields, and its 65th is an error with its line") {
  Harness harness(head() + outputs(64));
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.outputs[call].size() == 64);
  const Diagnostics errors = errors_of(head() + outputs(65));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == "too-many-outputs");
  CHECK(errors[0].mark.line == 6);
  CHECK(errors[0].message.find("65 output fields; the limit is 64") != std::string::npos);
}

TEST_CASE("a call brings 64 inputs, and its 65th is an error with its line") {
  std::string inputs = "q: json";
  for (int i = 1; i < 64; ++i) inputs += ", i" + std::to_string(i) + ": json";
  CHECK(errors_of(head(inputs) + outputs(1)).empty());
  const Diagnostics errors = errors_of(head(inputs + ", more: json") + outputs(1));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == "too-many-inputs");
  CHECK(errors[0].mark.line == 3);
}

TEST_CASE("a node feeds a thousand session nodes, each with its own queue") {
  std::string text = head();
  std::string all = "outputs: { o: [";
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "s" + std::to_string(i);
    text += "  " + name + ": { run: s.go, inputs: [ { x: a.f } ] }\n";
    all += (i == 0 ? " " : ", ") + name + ".f";
  }
  Harness harness(text + all + " ] }\n");
  harness.yields["a"] = {{"f"}, {"f"}};
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  CHECK(harness.outputs[call].size() == 2000);
  CHECK(harness.loop().scopes_in_use() == 0);
}

TEST_CASE("too many streams through one node are an error, not a plan of gigabytes") {
  // 1000 outputs, and 1900 session nodes with a join and a queue each: 4800 pass through `a`.
  std::string text = head();
  std::string all = "outputs:\n";
  for (int n = 0; n < 50; ++n) {
    const std::string name = "b" + std::to_string(n);
    text += "  " + name + ": { run: r.go, inputs: [ { x: a.f } ] }\n";
    for (int f = 0; f < 20; ++f)
      all += "  " + name + "_" + std::to_string(f) + ": " + name + ".f" + std::to_string(f) + "\n";
  }
  for (int n = 0; n < 1900; ++n)
    text += "  s" + std::to_string(n) + ": { run: s.go, inputs: [ { x: a.f, y: b0.f } ] }\n";
  const Diagnostics errors = errors_of(text + all);
  REQUIRE(!errors.empty());
  CHECK(std::ranges::all_of(errors, [](const Diagnostic& d) {
    return d.code == "too-many-streams" && d.mark.line != 0 &&
           d.message.find("the limit is 4096") != std::string::npos;
  }));
}

TEST_CASE("a call beyond the limit of calls ends at once, and leaves nothing behind") {
  Harness harness(head() + "outputs: { o: a.f }\nlimits: { calls: 2 }\n");
  const CallId first = harness.call(1);
  const CallId second = harness.call(1);  // waits for its turn, and counts
  const CallId third = harness.call(2);
  CHECK(harness.loop().knows(second));
  CHECK(!harness.loop().knows(third));
  harness.run();
  CHECK(harness.status[first] == "ok");
  CHECK(harness.status[second] == "ok");
  CHECK(harness.status[third].find("has 2 calls under way") != std::string::npos);
  CHECK(harness.outputs[third].empty());
  const CallId fourth = harness.call(2);
  harness.run();
  CHECK(harness.status[fourth] == "ok");
  CHECK(harness.loop().messages_in_use() + harness.loop().scopes_in_use() == 0);
}
