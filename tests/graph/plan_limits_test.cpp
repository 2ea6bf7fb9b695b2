// Joins and connections of a plan: as many as its tables have room for, and the place of one more.
#include <catch2/catch.hpp>
#include <string>

#include "graph/check.h"
#include "harness.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

const std::string head =
    "sluice: 1\nworkflow: limits\ninputs: { q: json }\nroles: { r: { plugin: scripted } }\nnodes:\n"
    "  a: { run: r.a, inputs: [ { x: inputs.q } ] }\n"
    "  b: { run: r.a, inputs: [ { x: inputs.q } ] }\n";
const std::string tail = "outputs: { o: a.f }\n";

/// Each error: its place, code, words and advice.
std::string errors_of(const std::string& text) {
  LoadedWorkflow loaded = load_workflow("limits.yaml", text);
  const Declarations declarations = testing::scripted();
  check(loaded.spec, declarations, loaded.diagnostics);
  (void)compile(loaded.spec, declarations, loaded.diagnostics);
  std::string all;
  for (const Diagnostic& one : loaded.diagnostics)
    if (one.severity == Severity::error)
      all += std::to_string(one.mark.line) + ":" + std::to_string(one.mark.column) + " " +
             one.code + ": " + one.message + " [" + one.suggestion + "]\n";
  return all;
}

/// Nodes with that many joins each.
std::string joining(int nodes, int joins) {
  std::string text;
  for (int i = 0; i < nodes; ++i) {
    text += "  n" + std::to_string(i) + ": { run: r.go, inputs: [";
    for (int j = 0; j < joins; ++j)
      text += std::string(j == 0 ? "" : ",") + " { x: a.f" + std::to_string(j) + ", y: b.f }";
    text += " ] }\n";
  }
  return text;
}

/// Nodes that read of forty others each, or of 39 and the call's input.
std::string reading(int nodes, bool of_the_call) {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "  s" + std::to_string(i) + ": { run: r.go, inputs: [ { x: a.f } ] }\n";
  for (int i = 0; i < nodes; ++i) {
    text += "  n" + std::to_string(i) + ": { run: r.go, inputs: [ { x: [ " +
            (of_the_call ? "inputs.q" : "s39.f");
    for (int j = 0; j < 39; ++j) text += ", s" + std::to_string(j) + ".f";
    text += " ] } ] }\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a plan has 4096 joins, and the node with one more is named, once") {
  CHECK(errors_of(head + joining(1024, 4) + tail).find("too-many-joins") == std::string::npos);
  const std::string words =
      " too-many-joins: with node 'n1024' the workflow has more than 4096 joins and counts, the "
      "limit [make two workflows of it]\n";
  CHECK(errors_of(head + joining(1025, 4) + tail) == "1032:3" + words);
  CHECK(errors_of(head + joining(1100, 4) + tail) == "1032:3" + words);
  // A count is one, too.
  CHECK(errors_of(head + joining(1024, 4) +
                  "  n1024: { run: r.go, inputs: [ { x: a.f } ], count: { x: b.n } }\n" + tail) ==
        "1032:3" + words);
}

TEST_CASE("a plan has 60000 connections, and of more the node that has most is named") {
  const int nodes = (60'000 - 43) / 40;  // two of the call, forty of `a`, one to the output
  const std::string many =
      " too-many-edges: the workflow has 60083 connections between nodes, most of them ";
  const std::string advice = " [bring values together in one node, or make two workflows of it]\n";
  CHECK(errors_of(head + reading(nodes, false) + tail).find("too-many-edges") == std::string::npos);
  // Read of a file there would be too many sources, which is said, too.
  const std::string more = errors_of(head + reading(nodes + 3, false) + tail);
  INFO(more);
  CHECK(more.ends_with("\n8:3" + many + "(1501) from 's0'; the limit is 60000" + advice));
  const std::string of_the_call = errors_of(head + reading(nodes + 3, true) + tail);
  INFO(of_the_call);
  CHECK(
      of_the_call.ends_with("\n1:1" + many + "(1503) from 'inputs'; the limit is 60000" + advice));
}
