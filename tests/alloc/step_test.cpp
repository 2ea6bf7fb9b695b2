// After its first calls an engine takes no memory: every table and list is kept and used again.
#include <catch2/catch.hpp>

#include "counter.h"
#include "graph/check.h"
#include "runtime/inproc/loop.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

constexpr const char* everything = R"(
sluice: 1
workflow: everything
inputs: { x: text }
roles:
  plain: { plugin: scripted, replicas: 3 }
  talk: { plugin: scripted, balance: session }
nodes:
  split: { run: plain.go, inputs: [ { x: inputs.x } ], outputs: [a, b, n] }
  left:  { run: plain.go, inputs: [ { a: split.a } ], outputs: [f] }
  right: { run: talk.go, inputs: [ { b: split.b } ], outputs: [f] }
  both:  { run: talk.go, inputs: [ { l: left.f, r: right.f } ], outputs: [f, back] }
  again: { run: plain.go, inputs: [ { r: both.f }, { r: turn.next } ], outputs: [f] }
  turn:  { run: plain.go, inputs: [ { f: again.f } ], outputs: [next, done] }
  count:
    run: talk.go
    inputs: [ { d: turn.done, l: left.f } ]
    count: { d: all, l: all }
    outputs: [f]
outputs: { out: count.f, each: turn.done }
limits: { loop_iterations: 9 }
)";

/// Answers every activation at once: three frames, a loop of three turns.
class Host final : public LoopHost {
 public:
  explicit Host(const Plan& plan) : plan_(plan), loop_(plan, *this), value_(make_number(2)) {}

  void start(const StartActivation& start) override {
    const PlanNode& node = plan_.nodes[start.node];
    const std::uint64_t all = (std::uint64_t{1} << node.outputs.size()) - 1;
    if (node.name == "turn") {
      yield(start, start.iteration < 3 ? 1 : 2, true);
    } else {
      yield(start, all, false);
      yield(start, all, true);
    }
    loop_.ended(start.node, start.activation, nullptr);
  }
  void cancel(const CancelActivation&) override {}
  void deliver(const DeliverOutput&) override { ++delivered; }
  void end(EndCall& end) override {
    REQUIRE(end.failure == nullptr);
    ++ended;
  }

  void call(std::vector<PayloadRef> inputs, std::uint64_t session) {
    loop_.call(session, inputs, Instant{0});
    loop_.run();
  }
  PayloadRef value() const { return value_; }

  std::size_t delivered = 0;
  std::size_t ended = 0;

 private:
  void yield(const StartActivation& start, std::uint64_t mask, bool last) {
    Frame* frame = loop_.new_frame(start.node);
    frame->mask = mask;
    for (std::size_t i = 0; i < frame->values.size(); ++i)
      if ((mask >> i & 1U) != 0) frame->values[i] = value_;
    loop_.yielded(start.node, start.activation, frame, last);
  }

  const Plan& plan_;
  Loop loop_;
  PayloadRef value_;
};

}  // namespace

TEST_CASE("a call takes no memory once the tables have their size") {
  PluginDeclaration scripted;
  scripted.name = "scripted";
  scripted.any_ports = true;
  LoadedWorkflow loaded = load_workflow("everything.yaml", everything);
  check(loaded.spec, {scripted}, loaded.diagnostics);
  const Plan plan = compile(loaded.spec, {scripted}, loaded.diagnostics);
  REQUIRE(!has_errors(loaded.diagnostics));
  Host host(plan);
  constexpr std::size_t calls = 600;
  std::vector<std::vector<PayloadRef>> inputs(calls);
  for (auto& one : inputs) one.push_back(host.value());
  for (std::size_t i = 0; i < 100; ++i) host.call(std::move(inputs[i]), i % 5);
  const std::size_t delivered = host.delivered;
  REQUIRE(delivered > 1000);
  const std::size_t before = allocations();
  for (std::size_t i = 100; i < calls; ++i) host.call(std::move(inputs[i]), i % 5);
  CHECK(allocations() - before == 0);
  CHECK(host.ended == calls);
  CHECK(host.delivered == delivered * 6);
}
