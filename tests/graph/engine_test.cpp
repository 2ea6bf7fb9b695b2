#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "base/random.h"
#include "harness.h"

using namespace sluice;
using sluice::testing::Firing;
using sluice::testing::Harness;

namespace {

const std::string head = R"(
sluice: 1
workflow: test
inputs: { x: json }
roles:
  any: { plugin: scripted }
  ordered: { plugin: scripted, balance: session }
)";

const std::string diamond = head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  left:   { run: any.run, inputs: [ { v: source.v } ] }
  right:  { run: any.run, inputs: [ { v: source.v } ] }
  join:   { run: ordered.run, inputs: [ { l: left.v, r: right.v } ] }
outputs: { out: join.v }
)";

std::size_t count_of(const Harness& harness, const std::string& node) {
  return static_cast<std::size_t>(std::ranges::count(harness.firings, node, &Firing::node));
}

/// Everything a caller can see, sorted where order is not promised.
std::string result_of(Harness& harness) {
  std::multiset<std::string> lines;
  for (const Firing& firing : harness.firings) {
    std::string line = firing.node + "|" + std::to_string(firing.group);
    for (const auto& [field, values] : firing.inputs) {
      line += "|" + field;
      for (const std::string& value : values) line += "," + value;
    }
    lines.insert(line);
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  for (const auto& [call, outputs] : harness.outputs) {
    std::map<std::string, std::string> by_name;
    for (const auto& [name, value] : outputs) by_name[name] += value + ";";
    for (const auto& [name, values] : by_name) text += name + "=" + values + "\n";
  }
  for (const auto& [call, status] : harness.status) text += status + "\n";
  return text;
}

}  // namespace

TEST_CASE("a join fires once per frame of its root, with the frames of that root only") {
  for (const bool merge_last : {true, false}) {
    Harness harness(diamond);
    harness.merge_last = merge_last;
    harness.yields["source"] = {{"v"}, {"v"}, {"v"}};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    CHECK(count_of(harness, "join") == 3);
    for (const Firing& firing : harness.firings)
      if (firing.node == "join")
        CHECK(firing.inputs.at("l")[0].substr(6) == firing.inputs.at("r")[0].substr(7));
    REQUIRE(harness.outputs[call].size() == 3);
    CHECK(harness.outputs[call][0].second.find("source#0") != std::string::npos);
    CHECK(harness.outputs[call][2].second.find("source#2") != std::string::npos);
    require_clean(harness);
  }
}

TEST_CASE("a join waits for every frame of a chain in which each activation yields many") {
  Harness harness(head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  many:   { run: any.run, inputs: [ { v: source.v } ] }
  more:   { run: any.run, inputs: [ { v: many.v } ] }
  single: { run: any.run, inputs: [ { v: source.v } ] }
  join:   { run: any.run, inputs: [ { a: more.v, b: single.v } ] }
outputs: { out: join.v }
)");
  harness.yields["many"] = {{"v"}, {"v"}, {"v"}};
  harness.yields["more"] = {{"v"}, {}, {"v"}};
  harness.pick = [](std::size_t waiting) { return waiting - 1; };
  harness.call();
  harness.run();
  REQUIRE(count_of(harness, "join") == 1);
  const auto join = std::ranges::find(harness.firings, "join", &Firing::node);
  CHECK(join->inputs.at("b").size() == 1);
  REQUIRE(join->inputs.at("a").size() == 6);
  // In logical order, though the newest was answered first.
  CHECK(join->inputs.at("a")[0] == "more#0<many#0<source#0<x>>>");
  CHECK(join->inputs.at("a")[1] == "more#2<many#0<source#0<x>>>");
  CHECK(join->inputs.at("a")[5] == "more#2<many#2<source#0<x>>>");
  require_clean(harness);
}

TEST_CASE("a join of which a field got nothing never runs, and the call still ends") {
  Harness harness(diamond);
  harness.yields["right"] = {};
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  CHECK(count_of(harness, "join") == 0);
  CHECK(harness.outputs[call].empty());
  require_clean(harness);
}

TEST_CASE("fields that came for different yields of their root are told as such") {
  Harness harness(head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  left:   { run: any.run, inputs: [ { v: source.a } ] }
  right:  { run: any.run, inputs: [ { v: source.b } ] }
  join:   { run: any.run, inputs: [ { l: left.v, r: right.v } ] }
outputs: { out: join.v, a: left.v }
)");
  harness.yields["source"] = {{"a"}, {"b"}};
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  CHECK(harness.warnings == std::vector<std::string>{"join: l and r never came for one and the "
                                                     "same yield of source, it did not run"});
  require_clean(harness);
}

TEST_CASE("a failure ends the call with its node's message, and everything else runs to its end") {
  Harness harness(diamond);
  harness.yields["source"] = {{"v"}, {"v"}};
  harness.fails["left"] = true;
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "left was told to fail by source#0<x>");
  CHECK(count_of(harness, "right") == 2);
  CHECK(count_of(harness, "join") == 0);
  require_clean(harness);
}

TEST_CASE("of several failures of one node the same one is told, whichever comes first") {
  const auto told = [](const std::string& nodes, const std::string& failing) {
    std::set<std::string> messages;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      Harness harness(head + nodes);
      harness.yields["source"] = {{"v", "n"}, {"v", "n"}};
      harness.numbers["source.n"] = 1;
      harness.fails[failing] = true;
      SplitMix64 random(seed);
      harness.pick = [&](std::size_t waiting) { return random.next() % waiting; };
      const CallId call = harness.call();
      harness.run();
      messages.insert(harness.status[call]);
      require_clean(harness);
    }
    return messages;
  };
  // Two activations of one node.
  CHECK(told(R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  work:   { run: any.run, inputs: [ { v: source.v, n: source.n } ] }
outputs: { out: work.v }
)",
             "work") == std::set<std::string>{"work was told to fail by source#0<x>+source#0<x>"});
  // The role of a count, and the number that came twice.
  CHECK(told(R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  hand:   { run: any.run, inputs: [ { v: source.v } ] }
  some:   { run: any.run, inputs: [ { v: hand.v } ], count: { v: source.n } }
outputs: { out: some.v }
)",
             "some") == std::set<std::string>{"some was told to fail by hand#0<source#0<x>>"});
}

TEST_CASE("on_error: skip turns a failure into a branch not taken") {
  std::string yaml = diamond;
  yaml.replace(yaml.find("left:   {"), 9, "left:   { on_error: skip,");
  Harness harness(yaml);
  harness.fails["left"] = true;
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  REQUIRE(!harness.warnings.empty());
  CHECK(std::ranges::any_of(harness.warnings, [](const std::string& warning) {
    return warning.starts_with("left failed and was skipped: ");
  }));
  require_clean(harness);
}

TEST_CASE("a session node runs in logical order whatever order its inputs arrive in") {
  Harness harness(head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  text:   { run: any.run, inputs: [ { v: source.text } ] }
  see:    { run: any.run, inputs: [ { v: source.image } ] }
  code:   { run: any.run, inputs: [ { v: source.image } ] }
  model:  { run: ordered.run, inputs: [ { h: text.v }, { f: see.v, l: code.v } ] }
outputs: { token: model.token }
)");
  harness.yields["source"] = {{"text"}, {"image"}, {"text"}, {"image"}, {"text"}};
  harness.yields["model"] = {{"token"}, {"token"}};
  harness.pick = [](std::size_t waiting) { return waiting - 1; };  // newest first
  const CallId call = harness.call();
  harness.run();
  std::vector<std::size_t> groups;
  for (const Firing& firing : harness.firings)
    if (firing.node == "model") groups.push_back(firing.group);
  CHECK(groups == std::vector<std::size_t>{0, 1, 0, 1, 0});
  REQUIRE(harness.outputs[call].size() == 10);
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(harness.outputs[call][i].second.starts_with("model#" + std::to_string(i % 2)));
    CHECK(harness.outputs[call][i].second.find("source#" + std::to_string(i / 2)) !=
          std::string::npos);
  }
  require_clean(harness);
}

TEST_CASE("a gap in the order settles as dead and never blocks what follows") {
  Harness harness(head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  filter: { run: any.run, inputs: [ { v: source.v } ] }
  model:  { run: ordered.run, inputs: [ { h: filter.v } ] }
outputs: { out: model.v }
)");
  harness.yields["source"] = {{"v"}, {"v"}, {"v"}, {"v"}};
  harness.yields["filter"] = {};
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  require_clean(harness);
}

TEST_CASE("calls of a session run one after another, sessions side by side") {
  Harness harness(diamond);
  const CallId a = harness.call(1);
  const CallId b = harness.call(1);
  const CallId c = harness.call(2);
  harness.loop().run();
  CHECK(harness.loop().calls() == 3);
  harness.run();
  CHECK(harness.status.size() == 3);
  CHECK((harness.status[a] == "ok" && harness.status[b] == "ok" && harness.status[c] == "ok"));
  require_clean(harness);
}

TEST_CASE("a count group consumes the oldest frames and reports what is left over") {
  const std::string yaml = head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  slow:   { run: any.run, inputs: [ { v: source.image } ] }
  draw:
    run: any.run
    inputs: [ { prompt: source.text, picture: slow.v } ]
    count: { prompt: 1, picture: source.pictures }
outputs: { out: draw.v }
)";
  SECTION("as many as a number says") {
    Harness harness(yaml);
    harness.numbers["source.pictures"] = 2;
    harness.yields["source"] = {{"image"}, {"image"}, {"text", "pictures"}, {"image"}};
    harness.pick = [](std::size_t waiting) { return waiting - 1; };
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    REQUIRE(count_of(harness, "draw") == 1);
    const auto draw = std::ranges::find(harness.firings, "draw", &Firing::node);
    CHECK(draw->inputs.at("picture") ==
          std::vector<std::string>{"slow#0<source#0<x>>", "slow#0<source#1<x>>"});
    CHECK(harness.warnings == std::vector<std::string>{"draw: 1 frame of picture left over"});
    require_clean(harness);
  }
  SECTION("none at all") {
    Harness harness(yaml);
    harness.yields["source"] = {{"text", "pictures"}};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    REQUIRE(count_of(harness, "draw") == 1);
    CHECK(harness.outputs[call].size() == 1);
    require_clean(harness);
  }
  SECTION("too few: it never runs, and says so") {
    Harness harness(yaml);
    harness.numbers["source.pictures"] = 3;
    harness.yields["source"] = {{"image"}, {"text", "pictures"}};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    CHECK(count_of(harness, "draw") == 0);
    REQUIRE(harness.warnings.size() == 2);
    CHECK(harness.warnings[0] == "draw: 1 of 3 frames of picture came, it did not run");
    CHECK(harness.warnings[1].starts_with("the call brought no output: "));
    require_clean(harness);
  }
  SECTION("less than none: an error that names node and field") {
    Harness harness(yaml);
    harness.numbers["source.pictures"] = -2;
    harness.yields["source"] = {{"image"}, {"text", "pictures"}};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] ==
          "'source.pictures' is -2, and node 'draw' counts the frames of 'picture' by it: a count "
          "is 0 or more");
    CHECK(count_of(harness, "draw") == 0);
    require_clean(harness);
  }
}

TEST_CASE("a stream and a loop longer than one interval can divide are refined, not lost") {
  Harness harness(head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  a: { run: any.run, inputs: [ { v: source.v } ] }
  b: { run: any.run, inputs: [ { v: a.v } ] }
  c: { run: any.run, inputs: [ { v: b.v } ] }
  d: { run: ordered.run, inputs: [ { v: c.v } ] }
  side: { run: any.run, inputs: [ { v: source.v } ] }
  join: { run: any.run, inputs: [ { v: d.v, w: side.v } ] }
outputs: { out: d.v, joined: join.v }
)");
  harness.merge_last = false;
  for (const char* node : {"a", "b", "c"})
    harness.yields[node] = std::vector<std::vector<std::string>>(20, {"v"});
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  CHECK(count_of(harness, "d") == 8000);
  CHECK(count_of(harness, "join") == 1);
  std::vector<std::string> order;
  for (const auto& [name, value] : harness.outputs[call])
    if (name == "out") order.push_back(value);
  REQUIRE(order.size() == 8000);
  CHECK(order[0].find("c#0<b#0<a#0") != std::string::npos);
  CHECK(order[7999].find("c#19<b#19<a#19") != std::string::npos);
  CHECK(order[20].find("c#0<b#1<a#0") != std::string::npos);
  require_clean(harness);
}

TEST_CASE("ten thousand frames that skip an arm cost it one message, not one each") {
  Harness harness(head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ], outputs: [l, r] }
  a: { run: any.run, inputs: [ { v: source.l } ] }
  b: { run: ordered.run, inputs: [ { v: source.r } ] }
outputs: { out: a.v, other: b.v }
)");
  harness.yields["source"] = std::vector<std::vector<std::string>>(10'000, {"l"});
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  // Two messages for each frame that goes through `a`; the arm through `b` is settled in a few.
  CHECK(harness.loop().messages_handled() < 20'010);
  require_clean(harness);
}

TEST_CASE("a loop turns until its branch is not taken, and an endless one meets its limit") {
  const std::string yaml = head + R"(
nodes:
  think: { run: ordered.run, inputs: [ { v: inputs.x }, { v: act.v } ] }
  act:   { run: any.run, inputs: [ { v: think.act } ] }
outputs: { out: think.say }
limits: { loop_iterations: 30 }
)";
  Harness endless(yaml);
  endless.merge_last = false;
  const CallId call = endless.call();
  endless.run();
  CHECK(endless.status[call].find("limit of 30 loop iterations") != std::string::npos);
  CHECK(count_of(endless, "think") == 30);
  CHECK(endless.outputs[call].size() == 30);
  require_clean(endless);
  Harness short_one(yaml);
  short_one.yields["act"] = {};
  const CallId ended = short_one.call();
  short_one.run();
  CHECK(short_one.status[ended] == "ok");
  CHECK(count_of(short_one, "think") == 1);
  require_clean(short_one);
}

TEST_CASE("a loop whose turns multiply their frames ends its call at the limit, in any order") {
  const std::string role = GENERATE("any", "ordered");
  const std::uint64_t seed = GENERATE(0U, 1U, 2U, 3U);
  INFO(role << " " << seed);
  Harness harness(head + "nodes:\n  think: { run: " + role +
                  ".run, inputs: [ { v: inputs.x }, { v: act.v } ] }\n" + R"(
  act:   { run: any.run, inputs: [ { v: think.act } ] }
  both:  { run: any.run, inputs: [ { a: think.say, b: inputs.x } ] }
outputs: { out: both.v }
limits: { frames: 300 }
)");
  SplitMix64 random(seed);
  if (seed != 0) harness.pick = [&](std::size_t size) { return random.next() % size; };
  harness.merge_last = seed % 2 == 0;
  harness.yields["act"] = {{"v"}, {"v"}};
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call].find("' reached the limit of 300 frames for a node of a loop") !=
        std::string::npos);
  CHECK(count_of(harness, "think") < 310);  // until the end of the call is known there
  require_clean(harness);
  const CallId again = harness.call();
  harness.run();
  CHECK(harness.status[again] == harness.status[call]);
  harness.yields["act"] = {};
  const CallId next = harness.call();
  harness.run();
  CHECK(harness.status[next] == "ok");
  require_clean(harness);
}

TEST_CASE("as many frames as the limit may come to a node of a loop, and of none any number") {
  const std::size_t frames = GENERATE(5U, 6U);
  Harness harness(head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  think: { run: ordered.run, inputs: [ { v: source.v }, { v: act.v } ] }
  act:   { run: any.run, inputs: [ { v: think.act } ] }
  after: { run: any.run, inputs: [ { v: source.v } ] }
  both:  { run: any.run, inputs: [ { a: think.say, b: inputs.x, c: after.v } ] }
outputs: { out: both.v }
limits: { frames: 5 }
)");
  harness.yields["source"] = std::vector<std::vector<std::string>>(frames, {"v"});
  harness.yields["after"] = {{"v"}, {"v"}};
  harness.yields["act"] = {};
  const CallId call = harness.call();
  harness.run();
  if (frames == 5) {
    CHECK(harness.status[call] == "ok");
    CHECK(count_of(harness, "after") == 5);
    CHECK(count_of(harness, "both") == 1);
  } else {
    CHECK(harness.status[call].find("'think' reached the limit of 5 frames") != std::string::npos);
  }
  require_clean(harness);
}

TEST_CASE("a cancelled call ends with that outcome and leaves nothing behind") {
  Harness harness(diamond);
  harness.yields["source"] = {{"v"}, {"v"}, {"v"}};
  const CallId call = harness.call();
  harness.loop().run();
  harness.loop().cancel(call);
  harness.run();
  CHECK(harness.status[call] == "the caller cancelled the call");
  require_clean(harness);
}

TEST_CASE(
    "a join that got some of its fields and never ran is a warning that says what is missing") {
  Harness harness(diamond);
  harness.yields["right"] = {{}};
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  CHECK(harness.warnings ==
        std::vector<std::string>{
            "join: r did not come from right.v, it did not run: node 'right' "
            "ran and yielded nothing on 'v'",
            "the call brought no output: out did not come from join.v: node 'right' ran and "
            "yielded nothing on 'v'"});
  require_clean(harness);
}

TEST_CASE("a field that did not come is no warning where the node ran for another yield") {
  for (const bool first : {true, false}) {
    Harness harness(head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  left:   { run: any.run, inputs: [ { v: source.l } ] }
  right:  { run: any.run, inputs: [ { v: source.r } ] }
  join:   { run: any.run, inputs: [ { l: left.v, r: right.v } ] }
outputs: { out: join.v }
)");
    // The yield that takes one arm only comes before the one that takes both, and after it.
    if (first)
      harness.yields["source"] = {{"l"}, {"l", "r"}};
    else
      harness.yields["source"] = {{"l", "r"}, {"l"}};
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    CHECK(count_of(harness, "join") == 1);
    CHECK(harness.warnings.empty());
    require_clean(harness);
  }
}

TEST_CASE("a call past its deadline ends with that outcome") {
  Harness harness(diamond);
  const CallId call = harness.call();
  harness.loop().run();
  CHECK(harness.loop().next_deadline() == std::chrono::seconds(30));
  harness.loop().tick(std::chrono::seconds(31));
  harness.run();
  CHECK(harness.status[call].find("deadline of 30000 ms") != std::string::npos);
  require_clean(harness);
}

TEST_CASE("every order of answers gives the same result") {
  const std::string yaml = head + R"(
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  inner:  { run: any.run, inputs: [ { v: source.a } ] }
  l: { run: any.run, inputs: [ { v: inner.v } ] }
  r: { run: any.run, inputs: [ { v: inner.v } ] }
  j: { run: any.run, inputs: [ { l: l.v, r: r.v } ] }
  other: { run: any.run, inputs: [ { v: source.a } ] }
  k: { run: ordered.run, inputs: [ { j: j.v, o: other.v }, { t: source.b } ] }
  tail: { run: any.run, inputs: [ { v: k.v } ] }
outputs: { out: tail.v, more: [ k.w, j.w ] }
)";
  std::string expected;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Harness harness(yaml);
    harness.merge_last = seed % 2 == 0;
    harness.yields["source"] = {{"a"}, {"b"}, {"a", "b"}, {}, {"a"}};
    harness.yields["inner"] = {{"v"}, {"v"}};
    harness.yields["r"] = {{"v"}, {"v"}};
    harness.yields["k"] = {{"v"}, {"v", "w"}, {"v"}};
    SplitMix64 random(seed);
    harness.pick = [&](std::size_t waiting) { return random.next() % waiting; };
    harness.call();
    harness.run();
    require_clean(harness);
    const std::string result = result_of(harness);
    if (seed == 0) expected = result;
    REQUIRE(result == expected);
  }
}
