// Why a call brought no output: what its warnings name, whatever the order of events.
#include <catch2/catch.hpp>

#include "base/random.h"
#include "harness.h"

using namespace sluice;
using sluice::testing::Harness;
using sluice::testing::Yields;

namespace {

const std::string head = R"(
sluice: 1
workflow: test
inputs: { x: json }
roles:
  any: { plugin: scripted }
  ordered: { plugin: scripted, balance: session }
  every: { plugin: scripted, replicas: 2, balance: broadcast }
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
)";

struct Case {
  std::string name;
  std::string nodes;  // behind `source`, and the outputs
  std::map<std::string, Yields> yields;
  std::vector<std::string> fails;
  std::vector<std::string> warnings;
};

std::string none_of(const std::string& outputs) { return "the call brought no output: " + outputs; }

const std::vector<Case> cases{
    {"a node that yields nothing",
     "outputs: { out: source.v }",
     {{"source", {}}},
     {},
     {none_of("out did not come from source.v: node 'source' ran and yielded nothing on 'v'")}},
    {"a node that yields a frame without anything",
     "outputs: { out: source.v }",
     {{"source", {{}}}},
     {},
     {none_of("out did not come from source.v: node 'source' ran and yielded nothing on 'v'")}},
    {"nodes behind it that never ran are not to blame",
     R"(
  a: { run: any.run, inputs: [ { v: source.v } ] }
  b: { run: any.run, inputs: [ { v: a.v } ] }
  c: { run: any.run, inputs: [ { v: b.v } ] }
outputs: { out: c.v }
)",
     {{"a", {}}},
     {},
     {none_of("out did not come from c.v: node 'a' ran and yielded nothing on 'v'")}},
    {"a join far behind",
     R"(
  side: { run: any.run, inputs: [ { v: source.l } ] }
  mid:  { run: any.run, inputs: [ { v: side.v } ] }
  meet: { run: any.run, inputs: [ { a: source.r, b: mid.v } ] }
  tail: { run: any.run, inputs: [ { v: meet.v } ] }
outputs: { out: tail.v }
)",
     {{"side", {}}},
     {},
     {"meet: b did not come from mid.v, it did not run: node 'side' ran and yielded nothing on 'v'",
      none_of("out did not come from tail.v: node 'side' ran and yielded nothing on 'v'")}},
    {"of a switch the branch that was taken",
     R"(
  yes: { run: any.run, inputs: [ { v: source.yes } ] }
  no:  { run: any.run, inputs: [ { v: source.no } ] }
outputs: { out: [ yes.v, no.v ] }
)",
     {{"source", {{"yes"}}}, {"yes", {}}},
     {},
     {none_of("out did not come from yes.v or no.v: node 'yes' ran and yielded nothing on 'v'")}},
    {"a switch whose branch leads to no output",
     R"(
  seen: { run: any.run, inputs: [ { v: source.seen } ] }
  log:  { run: any.run, inputs: [ { v: source.nothing } ] }
outputs: { out: seen.v }
)",
     {{"source", {{"nothing"}}}},
     {},
     {none_of("out did not come from seen.v: node 'source' ran and yielded nothing on 'seen'")}},
    {"both ways end",
     R"(
  a: { run: any.run, inputs: [ { v: source.v } ] }
  b: { run: any.run, inputs: [ { v: source.v } ] }
outputs: { out: a.v, more: [ a.w, b.v ] }
)",
     {{"a", {}}, {"b", {}}},
     {},
     {none_of("out did not come from a.v, more did not come from a.w or b.v: node 'a' ran and "
              "yielded nothing on 'v' or 'w', node 'b' ran and yielded nothing on 'v'")}},
    {"a loop that ends without its answer",
     R"(
  think: { run: any.run, inputs: [ { v: source.v }, { v: tool.v } ], outputs: [ask, answer] }
  tool:  { run: any.run, inputs: [ { v: think.ask } ] }
outputs: { out: think.answer }
)",
     {{"think", {{"ask"}}}, {"tool", {}}},
     {},
     {none_of("out did not come from think.answer: node 'think' ran and yielded nothing on "
              "'answer'")}},
    {"a branch that was taken as far as a join which waits for another",
     R"(
  side: { run: any.run, inputs: [ { v: source.l } ] }
  look: { run: any.run, inputs: [ { h: source.see, i: side.v } ] }
  say:  { run: any.run, inputs: [ { v: source.plain }, { v: look.v } ] }
outputs: { out: say.v }
)",
     {{"source", {{"l", "see"}}}, {"side", {}}},
     {},
     {"look: i did not come from side.v, it did not run: node 'side' ran and yielded nothing on "
      "'v'",
      none_of("out did not come from say.v: node 'side' ran and yielded nothing on 'v'")}},
    {"each output for a reason of its own",
     R"(
  say: { run: any.run, inputs: [ { v: source.plain } ] }
  log: { run: any.run, inputs: [ { v: source.trace } ] }
outputs: { out: say.v, logged: log.v }
)",
     {{"source", {{"trace"}}}, {"log", {}}},
     {},
     {none_of("out did not come from say.v, logged did not come from log.v: node 'source' ran and "
              "yielded nothing on 'plain', node 'log' ran and yielded nothing on 'v'")}},
    {"frames to count that never came",
     R"(
  piece: { run: any.run, inputs: [ { v: source.v } ] }
  next:  { run: any.run, inputs: [ { v: piece.v } ] }
  take:  { run: any.run, inputs: [ { p: next.v, q: source.q } ], count: { p: 2, q: 1 } }
outputs: { out: take.v }
)",
     {{"piece", {}}},
     {},
     {"take: 0 of 2 frames of p came, it did not run",
      none_of("out did not come from take.v: node 'piece' ran and yielded nothing on 'v'")}},
    {"too few frames to count",
     R"(
  one:  { run: any.run, inputs: [ { v: source.p } ] }
  two:  { run: any.run, inputs: [ { v: source.q } ] }
  take: { run: any.run, inputs: [ { f: [ one.v, two.v ] } ], count: { f: 2 } }
outputs: { out: take.v }
)",
     {{"two", {}}},
     {},
     {"take: 1 of 2 frames of f came, it did not run", none_of("out did not come from take.v")}},
    {"a node with sessions, for each of several frames",
     R"(
  talk: { run: ordered.run, inputs: [ { v: source.v } ] }
  tail: { run: any.run, inputs: [ { v: talk.v } ] }
outputs: { out: tail.v }
)",
     {{"source", {{"v"}, {"v"}, {"v"}}}, {"talk", {}}},
     {},
     {none_of("out did not come from tail.v: node 'talk' ran and yielded nothing on 'v'")}},
    {"on each replica",
     R"(
  all:  { run: every.run, inputs: [ { v: source.v } ] }
  tail: { run: any.run, inputs: [ { v: all.v } ] }
outputs: { out: tail.v }
)",
     {{"all", {}}},
     {},
     {none_of("out did not come from tail.v: node 'all' ran and yielded nothing on 'v'")}},
    {"a failure that is skipped says it itself",
     R"(
  a: { run: any.run, inputs: [ { v: source.v } ], on_error: skip }
  b: { run: any.run, inputs: [ { v: a.v } ] }
  no: { run: any.run, inputs: [ { v: source.no } ] }
outputs: { out: [ b.v, no.v ] }
)",
     {{"source", {{"v"}}}},
     {"a"},
     {"a failed and was skipped: a was told to fail by source#0<x>",
      none_of("out did not come from b.v or no.v")}},
    {"what came for other yields",
     R"(
  left:  { run: any.run, inputs: [ { v: source.l } ] }
  right: { run: any.run, inputs: [ { v: source.r } ] }
  join:  { run: any.run, inputs: [ { l: left.v, r: right.v } ] }
outputs: { out: join.v }
)",
     {{"source", {{"l"}, {"r"}}}},
     {},
     {"join: l and r never came for one and the same yield of source, it did not run",
      none_of("out did not come from join.v")}},
    {"a field that no yield brought",
     R"(
  left:  { run: any.run, inputs: [ { v: source.l } ] }
  right: { run: any.run, inputs: [ { v: source.r } ] }
  join:  { run: any.run, inputs: [ { l: left.v, r: right.v, s: source.s } ] }
outputs: { out: join.v, more: left.v }
)",
     {{"source", {{"l", "s"}, {"l", "s", "r"}, {"r", "s"}}}, {"right", {}}},
     {},
     {"join: r did not come from right.v, it did not run: node 'right' ran and yielded nothing on "
      "'v'"}},
};

}  // namespace

TEST_CASE("a call without an output names the nodes that ran and yielded nothing") {
  for (const Case& one : cases) {
    INFO(one.name);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Harness harness(head + one.nodes);
      harness.merge_last = seed % 2 == 0;
      harness.yields = one.yields;
      for (const std::string& node : one.fails) harness.fails[node] = true;
      SplitMix64 random(seed);
      harness.pick = [&](std::size_t waiting) { return random.next() % waiting; };
      const CallId call = harness.call();
      harness.run();
      CHECK(harness.status[call] == "ok");
      CHECK(harness.warnings == one.warnings);
      testing::require_clean(harness);
    }
  }
}

TEST_CASE("a node tells what it left out once in a call, however often it runs") {
  const auto messages = [](const Yields& yields) {
    Harness harness(head + R"(
  a: { run: any.run, inputs: [ { v: source.v } ] }
outputs: { out: a.v, rest: a.w }
)");
    harness.yields["source"] = Yields(100, {"v"});
    harness.yields["a"] = yields;
    harness.call();
    harness.run();
    CHECK(harness.warnings.empty());
    testing::require_clean(harness);
    return harness.loop().messages_handled();
  };
  // What goes along an edge, or is settled, is as much; it is told, and that the call has ended.
  CHECK(messages({{"v"}}) == messages({{"v", "w"}}) + 2);
}
