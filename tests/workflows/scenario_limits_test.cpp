// The limits of a scenario are where they are said to be: the most is taken, one more is refused.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/scratch_folder.h"
#include "workflows/load_scenario.h"

using namespace sluice;

namespace {

std::string repeated(std::size_t count, const std::string& text) {
  std::string made;
  made.reserve(count * (text.size() + 1));
  for (std::size_t i = 0; i < count; ++i) made += (i == 0 ? "" : ",") + text;
  return made;
}

/// The errors of a scenario of these calls and nodes, all lines; empty: none.
std::string problems(const std::string& calls, const std::string& nodes) {
  const LoadedScenario loaded = load_scenario(
      "s.yaml", "scenario: s\nworkflow: w.yaml\ncalls: [" + calls + "]\nnodes: {" + nodes + "}\n");
  std::string text;
  for (const Diagnostic& d : loaded.diagnostics)
    if (d.severity == Severity::error) text += d.message + "\n";
  return text;
}

const std::string call = "{}";

/// The one thing that is wrong with a scenario, with what to do; else how many are.
std::string problem(const std::string& nodes, const std::string& expect,
                    const std::string& inputs = "") {
  const LoadedScenario loaded =
      load_scenario("s.yaml", "scenario: s\nworkflow: w.yaml\ncalls: [ { inputs: {" + inputs +
                                  "} } ]\nnodes: {" + nodes + "}\nexpect: " + expect + "\n");
  if (loaded.diagnostics.size() != 1) return std::to_string(loaded.diagnostics.size());
  const Diagnostic& d = loaded.diagnostics[0];
  return d.code + ": " + d.message + " [" + d.suggestion + "]";
}

const std::string ok = "{ calls: [ { status: ok } ] }";

}  // namespace

TEST_CASE("names in place of frames are shown as frames, once for the whole script") {
  CHECK(problem("n: { yields: [ [again] ] }", ok) == "0");
  CHECK(problem("n: { yields: again }", ok) ==
        "wrong-kind: yields must be a list, this is a single value [each frame is a list of its "
        "fields: [ [ again ] ]]");
  CHECK(problem("n: { yields: [a, b] }", ok) ==
        "wrong-kind: a frame must be a list, this is a single value [each frame is a list of its "
        "fields: [ [ a ], [ b ] ]]");
  CHECK(problem("n: { by_iteration: [ [a], [b], [c] ] }", ok) ==
        "wrong-kind: a frame must be a list, this is a single value [each frame is a list of its "
        "fields: [ [ a ] ]]");
  for (const std::string what : {"by_iteration", "by_replica"})
    CHECK(problem("n: { " + what + ": again }", ok) ==
          "wrong-kind: " + what + " must be a list, this is a single value [" + what +
              ": [ [ [ again ] ] ] is one entry: one frame with one field]");
  CHECK(problem("n: { yields: [ [ [a] ], [ [b] ] ] }", ok)
            .starts_with("wrong-kind: a field of a frame is a name, not a list ["));
  const std::string many = problem("n: { yields: [" + repeated(1000, "again") + "] }", ok);
  CHECK(many.size() < 250);
  CHECK(many.find("[ again ], ... ]") != std::string::npos);
}

TEST_CASE("a field stands once in a frame of a script") {
  CHECK(problem("n: { yields: [ [x, y], [x] ] }", ok) == "0");
  CHECK(problem("n: { yields: [ [x, y, x] ] }", ok) ==
        "duplicate-field: the field 'x' stands twice in this frame [remove one of them; [ x ], [ x "
        "] is two frames with it]");
  CHECK(problem("n: { by_iteration: [ [ [x, x] ] ] }", ok).starts_with("duplicate-field: "));
}

TEST_CASE("an expectation that compares nothing is refused") {
  CHECK(problem("", "{ calls: [ { outputs: { o: 0 } } ] }") == "0");
  CHECK(problem("", "{ calls: [ { status: ok, outputs: {} } ] }") ==
        "empty-expectation: outputs is empty, and what is not named is not compared: this expects "
        "nothing [outputs: none expects no output at all, outputs: { NAME: 0 } none of NAME; or "
        "remove this]");
  CHECK(problem("", "{ calls: [ { outputs: none } ] }") == "0");
  CHECK(problem("", "{ calls: [ { outputs: some } ] }")
            .starts_with("wrong-kind: outputs must be a map"));
  CHECK(problem("", "{ firings: {} }").starts_with("empty-expectation: firings is empty"));
}

TEST_CASE("a space that lacks behind the ':' in braces is one mistake of a scenario too") {
  CHECK(problem("", ok, "q:a") ==
        "missing-space: a space must follow the ':' in 'q:a' [write q: a]");
  CHECK(problem("", "{ calls: [ { outputs: { o:1 } } ] }").starts_with("missing-space: "));
  CHECK(problem("n: { values: { v:1 } }", ok).starts_with("missing-space: "));
}

TEST_CASE("a misspelt `profile` is said to be that") {
  const LoadedScenario loaded =
      load_scenario("p.yaml", "profil: p\nnodes: { n: { latency: 1ms } }\n");
  REQUIRE(loaded.diagnostics.size() == 1);
  CHECK(loaded.diagnostics[0].message == "unknown key 'profil' in a profile");
  CHECK(loaded.diagnostics[0].suggestion == "did you mean 'profile'?");
  CHECK(loaded.spec.name == "p");
}

TEST_CASE("a scenario makes at most ten thousand calls") {
  CHECK(problems(repeated(10'000, call), "").empty());
  CHECK(problems(repeated(10'001, call), "").find("a scenario makes at most 10000 calls") !=
        std::string::npos);
}

TEST_CASE("numbers of a scenario are taken up to a thousand million, on both sides") {
  const auto value = [](const std::string& number) {
    return problems(call, "n: { yields: [ [v] ], values: { v: " + number + " } }");
  };
  CHECK(value("1000000000").empty());
  CHECK(value("-1000000000").empty());
  CHECK(value("1000000001").find("the value of 'v'") != std::string::npos);
  CHECK(value("-1000000001").find("the value of 'v'") != std::string::npos);
}

TEST_CASE("a script's latency is one duration, or two in their order") {
  const auto latency = [](const std::string& text) {
    const LoadedScenario loaded = load_scenario(
        "s.yaml",
        "scenario: s\nworkflow: w.yaml\ncalls: [ {} ]\nnodes: { n: { latency: " + text + " } }\n");
    for (const Diagnostic& d : loaded.diagnostics)
      if (d.severity == Severity::error) return d.code;
    const NodeScriptSpec& node = loaded.spec.nodes.at(0);
    return std::to_string(node.latency_least.count()) + " to " +
           std::to_string(node.latency_most.count());
  };
  CHECK(latency("5ms") == latency("[5ms, 5ms]"));
  CHECK(latency("[5ms, 9ms]") != latency("5ms"));
  CHECK(latency("[0ms, 1ms]") != latency("[0ms, 2ms]"));
  CHECK(latency("0ms") == "0 to 0");
  for (const char* wrong : {"[9ms, 5ms]", "[5ms]", "[1ms, 2ms, 3ms]", "[]", "{ a: 5ms }"})
    CHECK(latency(wrong) == "bad-latency");
}

TEST_CASE("a script fails at one of 65535 turns of a loop, and has one kind of yields") {
  const auto said = [](const std::string& text) { return problems(call, "n: { " + text + " }"); };
  CHECK(said("fail_when_iteration: 0").empty());
  CHECK(said("fail_when_iteration: 65535").empty());
  CHECK(said("fail_when_iteration: 65536").find("fail_when_iteration") != std::string::npos);
  CHECK(said("by_iteration: [ [ [v] ], [ ] ]").empty());
  CHECK(said("by_iteration: [ ]").find("by_iteration needs an entry") != std::string::npos);
  CHECK(said("yields: [ [v] ], by_iteration: [ [ [v] ] ]").find("has both") != std::string::npos);
  CHECK(said("by_replica: [ [ [v] ], [ ] ], fail_on_replica: 255").empty());
  CHECK(said("by_replica: [ ]").find("by_replica needs an entry") != std::string::npos);
  CHECK(said("yields: [ [v] ], by_replica: [ [ [v] ] ]").find("both `yields` and `by_replica`") !=
        std::string::npos);
  CHECK(said("by_iteration: [ [ ] ], by_replica: [ [ ] ]").find("has both `by_iteration` and") !=
        std::string::npos);
  CHECK(said("fail_on_replica: 256").find("fail_on_replica") != std::string::npos);
  CHECK(said("fail: maybe").find("fail") != std::string::npos);
}

TEST_CASE("a workflow that is not there is said at the line that names it") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/s.yaml";
  const auto said = [&](const std::string& workflow) {
    std::ofstream(path) << "scenario: s\nworkflow: " + workflow +
                               "\ncalls: [ {} ]\nexpect: { calls: [ { status: ok } ] }\n";
    const Result<LoadedScenario> loaded = load_scenario_file(path);
    std::string text;
    for (const Diagnostic& d : loaded->diagnostics)
      text += d.code + " in line " + std::to_string(d.mark.line) + ": " + d.message + "\n";
    return text;
  };
  CHECK(said("s.yaml").empty());
  CHECK(said("nowhere.yaml") == "no-such-workflow in line 2: there is no file '" + folder.path() +
                                    "/nowhere.yaml' with the workflow\n");
}
