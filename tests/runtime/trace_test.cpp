// What a runner remembers of what ran: which activation came from which, and when.
#include <algorithm>
#include <string>
#include <thread>

#include "world.h"

using namespace sluice;

namespace {

/// `left` and `right` meet in `both`; the test says which of them comes last.
std::string meeting(bool colocated) {
  const std::string together = colocated ? ", colocate: a" : "";
  return R"(
sluice: 1
workflow: test
inputs: { x: text }
roles:
  a: { plugin: scripted }
  b: { plugin: scripted)" +
         together + R"( }
  c: { plugin: scripted)" +
         together + R"( }
nodes:
  source: { run: a.source, inputs: [ { x: inputs.x } ], outputs: [v] }
  left:   { run: b.left, inputs: [ { v: source.v } ], outputs: [v] }
  right:  { run: c.right, inputs: [ { v: source.v } ], outputs: [v] }
  both:   { run: a.both, inputs: [ { l: left.v, r: right.v } ], outputs: [v] }
outputs: { out: both.v }
)";
}

RunnerOptions traced(std::size_t activations) {
  RunnerOptions options;
  options.trace = activations;
  return options;
}

struct Traced : TestWorld {
  std::vector<std::string> nodes;

  void run_traced(const std::string& yaml, std::size_t activations = 1000) {
    run(yaml, traced(activations));
    // The plan's numbers: the entry, then the nodes in the file's order.
    nodes = {"inputs"};
    for (const NodeSpec& node : loaded.spec.nodes) nodes.push_back(node.name.text);
  }
  /// Of a call's one activation of a node.
  static const Span* find(const Trace& trace, std::size_t call, NodeId node) {
    const auto it = std::ranges::find_if(
        trace.spans, [&](const Span& s) { return s.call == call && s.node == node; });
    return it == trace.spans.end() ? nullptr : &*it;
  }
  /// From the first to the node's, each after what brought its last input.
  std::string path_to(const Trace& trace, std::size_t call, NodeId node) {
    const Span* span = find(trace, call, node);
    std::string path;
    while (span != nullptr) {
      path.insert(0, " " + nodes[span->node]);
      span = span->after == Span::nobody ? nullptr : &trace.spans[span->after];
    }
    return path;
  }
};

Result<void> hand_on(Activation& a) {
  a.yield("v", make_text("v"));
  return {};
}

}  // namespace

TEST_CASE("a trace says from what each activation came, on one lane and over lanes") {
  for (const bool colocated : {true, false})
    for (const bool left_last : {true, false}) {
      if (colocated && left_last) continue;  // one lane has one order
      Traced world;
      world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
        // A join waits for ends too: the last one begins when nothing else is left.
        if (a.node() == (left_last ? "left" : "right") && !colocated)
          while (world.runner->counts().activations > 1) std::this_thread::yield();
        return hand_on(a);
      });
      world.run_traced(meeting(colocated));
      CHECK(world.call().first.ok);
      CHECK(world.call("t").first.ok);
      const Trace trace = world.runner->trace();
      REQUIRE(trace.calls.size() == 2);
      CHECK(trace.sessions == std::vector<std::string>{"s", "t"});
      CHECK(trace.calls[1].session == 1);
      CHECK(trace.spans.size() == 8);
      CHECK(world.path_to(trace, 0, 4) ==
            std::string(" source ") + (left_last ? "left" : "right") + " both");
      CHECK(world.path_to(trace, 1, 2) == " source left");
      for (const Span& span : trace.spans) {
        CHECK(trace.calls[span.call].arrived <= span.sent);
        CHECK(span.sent <= span.asked);
        CHECK(span.asked <= span.begin);
        CHECK(span.begin <= span.end);
        CHECK(span.begin <= trace.calls[span.call].done);
        if (span.after != Span::nobody) CHECK(trace.spans[span.after].begin <= span.sent);
      }
    }
}

TEST_CASE("a trace knows how each call ended, and what waited for another call waits in it") {
  Traced world;
  Gate begun, go;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    if (a.input("x")->text == "bad") return invalid_argument("no such thing");
    begun.open();
    go.wait();
    return hand_on(a);
  });
  world.run_traced(one_node());
  Waiting good, bad;
  world.runner->start({"s", {{"x", make_text("good")}}}, good.observer());
  begun.wait();
  world.runner->start({"s", {{"x", make_text("bad")}}}, bad.observer());
  Trace trace = world.runner->trace();
  CHECK_FALSE(trace.calls[0].ended);
  REQUIRE(trace.spans.size() == 1);
  CHECK(trace.spans[0].begin <= trace.spans[0].end);  // it runs: until now
  go.open();
  CHECK(good.wait().ok);
  CHECK_FALSE(bad.wait().ok);
  trace = world.runner->trace();
  REQUIRE(trace.calls.size() == 2);
  CHECK(trace.calls[0].ok);
  CHECK(trace.calls[1].ended);
  CHECK_FALSE(trace.calls[1].ok);
  CHECK(trace.calls[1].cause == "work");
  CHECK(trace.calls[1].message == "no such thing");
  REQUIRE(trace.spans.size() == 2);
  // Nothing of its own call came before it, though the first call's end let it start.
  CHECK(trace.spans[1].after == Span::nobody);
  CHECK(trace.spans[1].asked >= trace.spans[0].end);
}

TEST_CASE("a trace taken while a role hangs says that it runs, and of the next that it waits") {
  Traced world;
  Gate begun, go;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    begun.open();
    go.wait();
    return hand_on(a);
  });
  world.run_traced(one_node());
  Waiting held, queued;
  world.runner->start({"s", {{"x", make_text("a")}}}, held.observer());
  begun.wait();
  world.runner->start({"t", {{"x", make_text("b")}}}, queued.observer());
  const Trace hanging = world.runner->trace();
  go.open();
  CHECK(held.wait().ok);
  CHECK(queued.wait().ok);
  world.until_idle();
  const Trace done = world.runner->trace();
  REQUIRE(hanging.spans.size() == 2);
  REQUIRE(done.spans.size() == 2);
  CHECK(hanging.spans[0].begin == done.spans[0].begin);  // when its role took it, not now
  CHECK(hanging.spans[0].end < done.spans[0].end);
  CHECK(hanging.spans[1].begin == hanging.spans[1].end);  // nobody has taken it: queued until now
  CHECK(hanging.spans[1].begin < done.spans[1].begin);
}

TEST_CASE("a call that is given up ends in the trace as it did for its caller") {
  Traced world;
  Gate begun, go;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    begun.open();
    go.wait();
    return hand_on(a);
  });
  RunnerOptions options = traced(10);
  options.grace = std::chrono::milliseconds(0);
  world.run(one_node(), options);
  Waiting waiting;
  const auto handle = world.runner->start({"s", {{"x", make_text("x")}}}, waiting.observer());
  begun.wait();
  handle->cancel();
  CHECK_FALSE(waiting.wait().ok);
  while (world.runner->counts().given_up == 0) std::this_thread::yield();
  go.open();
  world.until_idle();
  const Trace trace = world.runner->trace();
  REQUIRE(trace.calls.size() == 1);
  CHECK(trace.calls[0].ended);
  CHECK_FALSE(trace.calls[0].ok);
  CHECK(trace.calls[0].message.find("cancelled") != std::string::npos);
}

TEST_CASE("the cause of a call that no node failed is empty in the trace") {
  for (const int grace_ms :
       {100'000, 0}) {  // ended by the engine, and given up where that is first
    Traced world;
    Gate begun, go;
    world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
      begun.open();
      go.wait();
      return hand_on(a);
    });
    RunnerOptions options = traced(10);
    options.grace = std::chrono::milliseconds(grace_ms);
    world.run(one_node(), options);
    Waiting first, second;
    world.runner->start({"s", {{"x", make_text("x")}}}, first.observer());
    begun.wait();
    // It waits for the first one, so none of its nodes runs.
    const auto handle = world.runner->start({"s", {{"x", make_text("x")}}}, second.observer());
    handle->cancel();
    CHECK_FALSE(second.wait().ok);
    CHECK(second.outcome.node.empty());
    go.open();
    CHECK(first.wait().ok);
    world.until_idle();
    const Trace trace = world.runner->trace();
    REQUIRE(trace.calls.size() == 2);
    CHECK(trace.calls[1].ended);
    CHECK_FALSE(trace.calls[1].ok);
    CHECK(trace.calls[1].message.find("cancelled") != std::string::npos);
    CHECK(trace.calls[1].cause == "");
  }
}

TEST_CASE(
    "an activation that its node's deadline ended has failed in the trace, one of a cancelled call "
    "not") {
  for (const bool is_late : {true, false}) {
    Traced world;
    Gate begun;
    world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
      begun.open();
      while (!a.cancelled()) std::this_thread::yield();
      return hand_on(a);
    });
    std::string yaml = one_node();
    const std::string outputs = "outputs: [v] }";
    if (is_late) yaml.replace(yaml.find(outputs), outputs.size(), "outputs: [v], deadline: 50ms }");
    world.run(yaml, traced(10));
    Waiting waiting;
    const auto handle = world.runner->start({"s", {{"x", make_text("x")}}}, waiting.observer());
    // A deadline may pass before a busy machine has begun it.
    if (!is_late) begun.wait();
    if (!is_late) handle->cancel();
    CHECK_FALSE(waiting.wait().ok);
    world.until_idle();
    const Trace trace = world.runner->trace();
    REQUIRE(trace.spans.size() == 1);
    CHECK(trace.spans[0].failed == is_late);
  }
}

TEST_CASE("a trace holds as many activations as it was made for, and says how many it left out") {
  for (const std::size_t room : {0U, 3U}) {
    Traced world;
    world.add_scripted([&](Activation& a, std::uint32_t) { return hand_on(a); });
    world.run_traced(meeting(false), room);
    for (int i = 0; i < 2; ++i) CHECK(world.call().first.ok);
    const Trace trace = world.runner->trace();
    CHECK(trace.spans.size() == room);
    CHECK(trace.calls.size() == (room == 0 ? 0U : 2U));
    CHECK(trace.left_out == (room == 0 ? 0U : 5U));
  }
}
