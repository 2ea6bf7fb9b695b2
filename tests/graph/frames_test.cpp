// How many frames of an input one activation reads: what a workflow says, and what only a call
// tells.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "harness.h"

using namespace sluice;
using sluice::testing::Firing;
using sluice::testing::Harness;

namespace {

/// `scripted`, and a role that reads one frame of `one`, at most one of `few` and all of `all`.
Declarations declarations() {
  const auto port = [](const char* name, PortFrames frames) {
    Port made;
    made.name = name;
    made.frames = frames;
    return made;
  };
  PluginDeclaration reader;
  reader.name = "reader";
  reader.interfaces = {{"read",
                        {port("one", PortFrames::one), port("few", PortFrames::at_most_one),
                         port("all", PortFrames::any)},
                        {port("v", PortFrames::any)},
                        {},
                        0}};
  Declarations all = sluice::testing::scripted();
  all.push_back(reader);
  return all;
}

std::string flow(const std::string& read) {
  return R"(
sluice: 1
workflow: test
inputs: { x: json, n: number }
roles:
  any: { plugin: scripted }
  ordered: { plugin: scripted, balance: session }
  r: { plugin: reader }
nodes:
  root: { run: any.run, inputs: [ { x: inputs.x } ] }
  a:    { run: any.run, inputs: [ { v: root.v } ] }
  b:    { run: any.run, inputs: [ { v: root.v } ] }
  read: { run: r.read, )" +
         read + R"( }
outputs: { out: read.v, a: a.v, b: b.v, n: inputs.n }
)";
}

/// What is wrong with such a node, "code: message" each.
std::vector<std::string> problems(const std::string& read) {
  LoadedWorkflow loaded = load_workflow("test.yaml", flow(read));
  check(loaded.spec, declarations(), loaded.diagnostics);
  std::vector<std::string> said;
  for (const Diagnostic& d : loaded.diagnostics)
    if (d.severity == Severity::error) said.push_back(d.code + ": " + d.message);
  return said;
}

using Said = std::vector<std::string>;

struct Ran {
  std::string status;
  std::ptrdiff_t firings = 0;
  std::vector<std::string> warnings;
};

Ran run(const std::string& read, const sluice::testing::Yields& of_a) {
  Harness harness(flow(read), declarations());
  harness.yields["a"] = of_a;
  const CallId call = harness.call();
  harness.run();
  require_clean(harness);
  return {harness.status[call], std::ranges::count(harness.firings, "read", &Firing::node),
          harness.warnings};
}

}  // namespace

TEST_CASE("a group that lacks an input which the role needs is an error where it stands") {
  CHECK(problems("inputs: [ { one: a.v } ]").empty());
  CHECK(problems("inputs: [ { few: a.v } ]") ==
        Said{"missing-input: 'r.read' needs its input 'one', which these inputs of 'read' do not "
             "bring"});
  CHECK(problems("inputs: [ { one: a.v, few: b.v }, { all: a.v } ]").size() == 1);
  // A misspelt name is said once.
  CHECK(problems("inputs: [ { onne: a.v } ]") ==
        Said{"unknown-field: 'r.read' has no input 'onne'"});
}

TEST_CASE("a count of another number than the role reads is an error where it stands") {
  CHECK(problems("inputs: [ { one: a.v, all: b.v } ], count: { one: 1, all: 7 }").empty());
  CHECK(problems("inputs: [ { one: a.v, all: b.v } ], count: { one: 2, all: 0 }") ==
        Said{"reads-one-frame: 'r.read' reads one frame of 'one', its count is 2"});
  CHECK(problems("inputs: [ { one: a.v } ], count: { one: 0 }") ==
        Said{"reads-one-frame: 'r.read' reads one frame of 'one', its count is 0"});
  CHECK(problems("inputs: [ { one: a.v, few: b.v } ], count: { one: 1, few: 0 }").empty());
  CHECK(problems("inputs: [ { one: a.v, few: b.v } ], count: { one: 1, few: 2 }").size() == 1);
  CHECK(problems("inputs: [ { one: a.v } ], count: { one: all }").empty());
}

TEST_CASE("frames that nobody would read are an error of the call, and the role does not run") {
  const std::string two = "2 frames of 'one' came, and 'r.read' reads one";
  Ran ran = run("inputs: [ { one: a.v, all: b.v } ]", {{"v"}, {"v"}});
  CHECK(ran.status == two);
  CHECK(ran.firings == 0);
  ran = run("inputs: [ { one: b.v, few: a.v } ]", {{"v"}, {"v"}});
  CHECK(ran.status == "2 frames of 'few' came, and 'r.read' reads one");
  CHECK(ran.firings == 0);
  ran = run("inputs: [ { one: b.v, all: a.v } ]", {{"v"}, {"v"}});
  CHECK(ran.status == "ok");
  CHECK(ran.firings == 1);
  // A group without a join runs once for each frame, so each is the only one.
  ran = run("inputs: [ { one: a.v } ]", {{"v"}, {"v"}});
  CHECK(ran.status == "ok");
  CHECK(ran.firings == 2);
  ran = run("inputs: [ { one: a.v, all: b.v } ], on_error: skip", {{"v"}, {"v"}});
  CHECK(ran.status == "ok");
  CHECK(ran.firings == 0);
  CHECK(std::ranges::count(ran.warnings, "read failed and was skipped: " + two) == 1);
}

TEST_CASE("a count that a call brings has to be what the role reads") {
  for (const std::int64_t n : {0, 1, 2}) {
    Harness harness(flow("inputs: [ { one: a.v, all: b.v } ], count: { one: a.n, all: 1 }"),
                    declarations());
    harness.yields["a"] = {{"v"}, {"v", "n"}};
    harness.numbers["a.n"] = n;
    const CallId call = harness.call();
    harness.run();
    INFO(n << " frames");
    CHECK(
        harness.status[call] ==
        (n == 1 ? "ok" : "" + std::to_string(n) + " frames of 'one' came, and 'r.read' reads one"));
    CHECK(std::ranges::count(harness.firings, "read", &Firing::node) == (n == 1 ? 1 : 0));
    require_clean(harness);
  }
}
