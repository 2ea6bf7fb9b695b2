// Frames that multiply without a loop: `limits: frames` bounds what comes to one node in a call.
#include <algorithm>
#include <catch2/catch.hpp>

#include "harness.h"

using namespace sluice;
using sluice::testing::Harness;

namespace {

/// `one` yields a frame, `many` any number, each of them from `x` to `y`.
Declarations declarations() {
  Declarations all = testing::scripted();
  for (const bool one : {true, false}) {
    PluginDeclaration made;
    made.name = one ? "one" : "many";
    const Port in{"x", ValueType::any, ""};
    made.interfaces = {
        {"go", {in}, {{"y", ValueType::any, ""}, {"z", ValueType::any, ""}}, {}, one ? 1U : 0U},
        {"meet", {in, {"w", ValueType::any, ""}}, {{"y", ValueType::any, ""}}, {}, one ? 1U : 0U}};
    all.push_back(made);
  }
  return all;
}

std::string flow(const std::string& nodes, const std::string& out, int frames = 1000) {
  return "sluice: 1\nworkflow: test\ninputs: { x: text }\n"
         "roles:\n  one: { plugin: one }\n  many: { plugin: many }\n"
         "  any: { plugin: scripted }\n  ordered: { plugin: scripted, balance: session }\n"
         "nodes:\n" +
         nodes + "outputs: { out: " + out + " }\nlimits: { frames: " + std::to_string(frames) +
         ", deadline: 60m }\n";
}

std::string node(const std::string& name, const std::string& run, const std::string& groups) {
  return "  " + name + ": { run: " + run + ", inputs: [ " + groups + " ] }\n";
}

/// Each node goes to two, and the next takes what comes of both.
std::string diamonds(int count, const std::string& run, const std::string& from = "inputs.x") {
  std::string nodes = node("n0", run, "{ x: " + from + " }");
  for (int i = 1; i <= count; ++i) {
    const std::string before = "n" + std::to_string(i - 1) + ".y";
    const std::string l = "l" + std::to_string(i), r = "r" + std::to_string(i);
    nodes += node(l, run, "{ x: " + before + " }") + node(r, run, "{ x: " + before + " }") +
             node("n" + std::to_string(i), run, "{ x: " + l + ".y }, { x: " + r + ".y }");
  }
  return nodes;
}

/// The nodes of a workflow that count frames.
std::string counted(const std::string& yaml) {
  const Harness harness(yaml, declarations());
  std::string names;
  for (const PlanNode& one : harness.plan().nodes)
    if (one.frames_counted) names += (names.empty() ? "" : " ") + one.name;
  return names;
}

}  // namespace

TEST_CASE("25 diamonds in a row end at the limit, with the node that reached it") {
  for (const bool declared : {true, false}) {
    Harness harness(flow(diamonds(25, declared ? "one.go" : "any.run"), "n25.y"), declarations());
    const CallId call = harness.call();
    harness.run();
    INFO(harness.status[call]);
    const std::string words = harness.status[call];
    CHECK(words.starts_with("node 'n"));
    CHECK(words.find("reached the limit of 1000 frames that come to a node in one call (limits: "
                     "frames)") != std::string::npos);
    CHECK(harness.firings.size() < 60'000);
    CHECK(harness.outputs[call].empty());
    testing::require_clean(harness);
  }
}

TEST_CASE("nodes one after the other that each yield several end at the limit") {
  std::string nodes = node("n0", "any.run", "{ x: inputs.x }");
  for (int i = 1; i <= 20; ++i)
    nodes += node("n" + std::to_string(i), "any.run", "{ x: n" + std::to_string(i - 1) + ".y }");
  Harness harness(flow(nodes, "n20.y"), declarations());
  for (int i = 0; i <= 20; ++i) harness.yields["n" + std::to_string(i)] = {{"y"}, {"y"}};
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call].find("reached the limit of 1000 frames") != std::string::npos);
  CHECK(harness.firings.size() < 20'000);
  testing::require_clean(harness);
}

TEST_CASE("one stream is not cut, however long it is, and what is joined again is one stream") {
  const std::string stream = flow(
      node("source", "many.go", "{ x: inputs.x }") + node("a", "one.go", "{ x: source.y }") +
          node("b", "one.go", "{ x: source.z }") + node("both", "one.meet", "{ x: a.y, w: b.y }") +
          node("either", "one.go", "{ x: a.y }, { x: b.y }") +
          node("sink", "one.go", "{ x: either.y }, { x: both.y }"),
      "source.z", 1'000);
  CHECK(counted(stream).empty());
  Harness harness(stream, declarations());
  harness.yields["source"] = testing::Yields(5'000, {"y"});
  harness.yields["source"].push_back({"z"});
  for (const char* name : {"a", "b", "either", "sink"}) harness.yields[name] = {{"y"}};
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  CHECK(std::ranges::count(harness.firings, "sink", &testing::Firing::node) == 5'001);
}

TEST_CASE("frames are counted where streams multiply, where many ways meet, and in loops") {
  const std::string source = node("source", "many.go", "{ x: inputs.x }");
  CHECK(counted(flow(source + node("a", "many.go", "{ x: source.y }") +
                         node("b", "one.go", "{ x: a.y }") + node("c", "one.go", "{ x: b.y }"),
                     "c.y")) == "b");
  CHECK(counted(
            flow(node("a", "one.go", "{ x: inputs.x }") + node("b", "one.go", "{ x: a.y }"), "b.y"))
            .empty());
  // 2^9 frames are within the limit, 2^10 are not.
  CHECK(counted(flow(diamonds(9, "one.go"), "n9.y")).empty());
  CHECK(counted(flow(diamonds(10, "one.go"), "n10.y")) == "n10");
  CHECK(counted(flow(source + node("a", "one.go", "{ x: source.y }, { x: b.y }") +
                         node("b", "one.go", "{ x: a.z }"),
                     "a.y")) == "a b");
  // Of what leaves a loop nobody knows how many there are: 2^6 ways are few, 2^7 are not.
  const std::string loop =
      node("a", "one.go", "{ x: inputs.x }, { x: b.y }") + node("b", "one.go", "{ x: a.z }");
  CHECK(counted(flow(loop + diamonds(6, "one.go", "a.y"), "n6.y")) == "a b");
  CHECK(counted(flow(loop + diamonds(7, "one.go", "a.y"), "n7.y")) == "a b n7");
}
