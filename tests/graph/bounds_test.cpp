// The most activations and frames of a call, where the declarations bound them.
#include <catch2/catch.hpp>

#include "graph/check.h"
#include "graph/plan.h"
#include "graph/print.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

PluginDeclaration plugin(const std::string& name, std::uint32_t yields_max) {
  PluginDeclaration made;
  made.name = name;
  const Port in{"x", ValueType::any, "", false};
  const Port out{"y", ValueType::any, "", false};
  made.interfaces = {{"go", {in}, {out}, {}, yields_max},
                     {"join", {in, {"z", ValueType::any, "", false}}, {out}, {}, yields_max}};
  return made;
}

}  // namespace

TEST_CASE("frames are bounded through streams, joins and counts, not through loops") {
  const Declarations declarations{plugin("one", 1), plugin("three", 3), plugin("many", 0)};
  LoadedWorkflow loaded = load_workflow("bounds.yaml", R"(
sluice: 1
workflow: bounds
inputs: { a: text }
roles: { one: { plugin: one }, three: { plugin: three }, many: { plugin: many } }
nodes:
  s: { run: three.go, inputs: [ { x: inputs.a } ] }
  t: { run: three.go, inputs: [ { x: s.y } ] }
  j: { run: one.join, inputs: [ { x: t.y, z: s.y } ] }
  m: { run: many.go, inputs: [ { x: j.y } ] }
  n: { run: one.go, inputs: [ { x: m.y } ] }
  c: { run: three.go, inputs: [ { x: m.y } ], count: { x: 1 } }
  l: { run: one.go, inputs: [ { x: c.y }, { x: k.y } ] }
  k: { run: one.go, inputs: [ { x: l.y } ] }
outputs: { o: [n.y, k.y] }
)");
  check(loaded.spec, declarations, loaded.diagnostics);
  const Plan plan = compile(loaded.spec, declarations, loaded.diagnostics);
  REQUIRE(!has_errors(loaded.diagnostics));
  const auto most = [&](const char* node) { return plan.find(node)->activations_max; };
  CHECK(most("s") == 1);
  CHECK(most("t") == 3);
  CHECK(most("j") == 3);
  CHECK(most("m") == 3);
  CHECK(most("n") == 0);
  CHECK(most("c") == 1);
  CHECK(most("l") == 0);
  CHECK(plan.edges[plan.find("t")->edges[0]].frames_max == 9);
  CHECK(plan.edges[plan.find("t")->edges[0]].bytes_max == 0);  // values of any size
}

TEST_CASE("a loop whose frames all go round again is warned of, and no other") {
  PluginDeclaration apart = plugin("apart", 1);  // y, or w in a frame of its own
  for (InterfaceDeclaration& one : apart.interfaces) {
    one.outputs.push_back({"w", ValueType::any, "", false});
    one.frames = {{"y"}, {"w"}};
  }
  PluginDeclaration both = apart;  // y and w together
  both.name = "both";
  for (InterfaceDeclaration& one : both.interfaces) one.frames.clear();
  const Declarations declarations{plugin("one", 1), plugin("many", 0), apart, both};
  const auto warned = [&](const std::string& nodes, const std::string& output) {
    LoadedWorkflow loaded = load_workflow("loop.yaml", R"(
sluice: 1
workflow: loop
inputs: { a: text, b: text }
roles:
  { one: { plugin: one }, many: { plugin: many }, apart: { plugin: apart }, both: { plugin: both } }
nodes:
)" + nodes + "outputs: { o: " + output + " }\nlimits: { loop_iterations: 3 }\n");
    check(loaded.spec, declarations, loaded.diagnostics);
    const Plan plan = compile(loaded.spec, declarations, loaded.diagnostics);
    std::string text;
    for (const Diagnostic& d : loaded.diagnostics)
      if (d.severity == Severity::error || d.code == "endless-loop")
        text += d.code + ": " + d.message + "\n";
    return text;
  };
  const auto loop = [](const std::string& l, const std::string& k, const std::string& back) {
    return "  l: { run: " + l + ".go, inputs: [ { x: inputs.a }, { x: " + back + " } ] }\n" +
           "  k: { run: " + k + ".go, inputs: [ { x: l.y } ] }\n";
  };
  const std::string endless =
      "endless-loop: every frame of the loop l -> k -> l goes round it again, what leaves it too: "
      "unless a node yields nothing, the call fails after 3 turns (limits: loop_iterations)\n";
  CHECK(warned(loop("one", "one", "k.y"), "k.y") == endless);
  CHECK(warned(loop("one", "one", "k.y"), "l.y") == endless);
  CHECK(warned(loop("one", "both", "k.y"), "k.w") == endless);  // it comes with what leads back
  CHECK(warned(loop("one", "apart", "k.y"), "k.w").empty());
  CHECK(warned(loop("one", "many", "k.y"), "k.y").empty());  // how many frames is the role's affair
  // A node that skips its errors lives with the limit.
  const std::string plain = loop("one", "one", "k.y");
  CHECK(warned(std::string(plain).insert(plain.rfind(" }"), ", on_error: skip"), "k.y").empty());
  CHECK(warned(std::string(plain).insert(plain.rfind(" }"), ", max_age: 10ms"), "k.y").empty());
  // A join in it need not be complete a second time.
  CHECK(warned("  l: { run: one.go, inputs: [ { x: inputs.a }, { x: j.y } ] }\n"
               "  m: { run: one.go, inputs: [ { x: l.y } ] }\n"
               "  j: { run: one.join, inputs: [ { x: l.y, z: m.y } ] }\n",
               "j.y")
            .empty());
  // Two loops, one beside the other, are told apart.
  CHECK(warned(loop("one", "one", "k.y") +
                   "  n: { run: apart.go, inputs: [ { x: inputs.b }, { x: n.y } ] }\n",
               "[k.y, n.w]") == endless);
}

TEST_CASE("bytes are bounded where frames and values are") {
  PluginDeclaration sizes;
  sizes.name = "sizes";
  sizes.interfaces = {{"go",
                       {{"x", ValueType::any, "", false}},
                       {{"picture", ValueType::image, "", false, 1000},
                        {"many", ValueType::number, "", false},
                        {"free", ValueType::text, "", false}},
                       {},
                       3}};
  LoadedWorkflow loaded = load_workflow("bytes.yaml", R"(
sluice: 1
workflow: bytes
inputs: { a: text }
roles: { r: { plugin: sizes } }
nodes:
  s: { run: r.go, inputs: [ { x: inputs.a } ] }
  p: { run: r.go, inputs: [ { x: s.picture } ] }
  n: { run: r.go, inputs: [ { x: s.many } ] }
  f: { run: r.go, inputs: [ { x: s.free } ] }
  q: { run: r.go, inputs: [ { x: p.many } ] }
outputs: { o: [n.free, f.free, q.free] }
)");
  check(loaded.spec, {sizes}, loaded.diagnostics);
  const Plan plan = compile(loaded.spec, {sizes}, loaded.diagnostics);
  REQUIRE(!has_errors(loaded.diagnostics));
  const auto into = [&](const char* node) {
    return plan.edges[plan.find(node)->groups[0].edges[0]].bytes_max;
  };
  CHECK(into("p") == 3000);
  CHECK(into("n") == 3 * 8);
  CHECK(into("f") == 0);
  CHECK(into("q") == 9 * 8);
  CHECK(plan_json(plan).find("\"bytes_max\":3000") != std::string::npos);
  CHECK(explain_node(plan, *plan.find("p")).find("at most 3 frames, 3000 bytes in a call") !=
        std::string::npos);
}
