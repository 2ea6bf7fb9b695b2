// What a reader must find in every picture of a plan: OR groups, joins with their roots, counts and
// the order of sessions.
#include <catch2/catch.hpp>

#include "graph/check.h"
#include "graph/plan.h"
#include "graph/print.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

Plan plan_of(std::string_view text) {
  PluginDeclaration scripted;
  scripted.name = "scripted";
  scripted.any_ports = true;
  const Declarations declarations{scripted};
  LoadedWorkflow loaded = load_workflow("test.yaml", text);
  check(loaded.spec, declarations, loaded.diagnostics);
  REQUIRE_FALSE(has_errors(loaded.diagnostics));
  Plan plan = compile(loaded.spec, declarations, loaded.diagnostics);
  REQUIRE_FALSE(has_errors(loaded.diagnostics));
  return plan;
}

constexpr const char* draw = R"(sluice: 1
workflow: draw
inputs: { request: json }
roles:
  any:  { plugin: scripted, replicas: 3 }
  talk: { plugin: scripted, balance: session }
nodes:
  parse: { run: any.parse, inputs: [ { request: inputs.request } ] }
  see:   { run: any.see, inputs: [ { image: parse.image } ] }
  say:   { run: talk.say, inputs: [ { text: parse.text }, { image: parse.image, seen: see.seen } ] }
  paint:
    run: any.paint
    inputs: [ { prompt: say.prompt, seen: see.seen } ]
    count: { prompt: 1, seen: parse.pictures }
outputs: { picture: paint.picture, words: say.word }
)";

}  // namespace

TEST_CASE("a Mermaid picture shows groups, gates, counts and order, and nothing else") {
  CHECK(plan_mermaid(plan_of(draw)) == R"m(flowchart LR
  inputs(["inputs<br/>request"])
  n_parse["parse<br/>any.parse, 3 replicas"]
  n_see["see<br/>any.see, 3 replicas"]
  n_say[["say<br/>talk.say<br/>runs on any of 2<br/>in order per session"]]
  n_paint["paint<br/>any.paint, 3 replicas"]
  g_say_1{{"all of<br/>one yield of parse"}}
  g_paint_0{{"once per call<br/>prompt: 1<br/>seen: parse.pictures"}}
  o_picture(["picture<br/>in order of paint"])
  o_words(["words<br/>in order of say"])
  inputs -->|"request"| n_parse
  n_parse -->|"image"| n_see
  n_parse -->|"text"| n_say
  n_parse -->|"image"| g_say_1
  n_see -->|"seen"| g_say_1
  g_say_1 --> n_say
  n_say -->|"prompt"| g_paint_0
  n_see -->|"seen"| g_paint_0
  n_parse -->|"pictures (how many)"| g_paint_0
  g_paint_0 --> n_paint
  n_paint -->|"picture"| o_picture
  n_say -->|"word"| o_words
)m");
}

TEST_CASE("DOT and SVG say what Mermaid says") {
  const Plan plan = plan_of(draw);
  const std::string dot = plan_dot(plan);
  const std::string svg = plan_svg(plan);
  for (const char* words :
       {"runs on any of 2", "one yield of parse", "once per call", "seen: parse.pictures",
        "in order per session", "in order of say", "any.see, 3 replicas", "pictures (how many)"}) {
    INFO(words);
    CHECK(dot.find(words) != std::string::npos);
    CHECK(svg.find(">" + std::string(words) + "<") != std::string::npos);
  }
  CHECK(dot.find("n_say [label=\"say\\ntalk.say\\nruns on any of 2\\nin order per session\", "
                 "peripheries=2];") != std::string::npos);
  CHECK(dot.find("g_say_1 -> n_say;") != std::string::npos);
}

TEST_CASE("every word of Mermaid may be a node's name") {
  const std::string text = plan_mermaid(plan_of(R"(sluice: 1
workflow: words
inputs: { end: json }
roles: { graph: { plugin: scripted } }
nodes: { end: { run: graph.style, inputs: [ { class: inputs.end } ] } }
outputs: { subgraph: end.click }
)"));
  CHECK(text.find("n_end[\"end<br/>graph.style\"]") != std::string::npos);
  CHECK(text.find("n_end -->|\"click\"| o_subgraph") != std::string::npos);
}
