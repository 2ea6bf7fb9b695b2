// The engines' side of a call that is given up: what it held goes at once, but for what still runs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "graph/check.h"
#include "runtime/inproc/loop.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

/// Hands on at once, but for the nodes that it holds.
class HeldRoles final : public LoopHost {
 public:
  HeldRoles(const Plan& plan, std::vector<std::string> held)
      : plan_(plan), held_(std::move(held)), loop(plan, *this) {}

  void start(const StartActivation& start) override {
    const std::string& name = plan_.nodes[start.node].name;
    if (std::ranges::find(held_, name) != held_.end()) {
      holds[name] = start;
      return;
    }
    hand_on(start);
  }
  void hand_on(const StartActivation& start) {
    Frame* frame = loop.new_frame(start.node);
    frame->mask = 1;
    frame->values[0] = make_text("v");
    loop.yielded(start.node, start.activation, frame, true);
  }
  void cancel(const CancelActivation& cancel) override {
    cancelled.push_back(plan_.nodes[cancel.node].name);
  }
  void deliver(const DeliverOutput&) override { ++delivered; }
  void end(EndCall& end) override {
    ends.push_back(end.call);
    failures.push_back(end.failure ? end.failure->kind : FailureKind::role_failed);
  }
  bool is_empty() const {
    const EngineCounts counts = loop.counts();
    return counts.activations + counts.buckets + counts.calls + loop.calls() == 0 &&
           loop.messages_in_use() + loop.frames_in_use() + loop.scopes_in_use() == 0;
  }
  CallId call(std::uint64_t session) {
    PayloadRef input = make_text("x");
    const CallId id = loop.call(session, {&input, 1}, Instant{0});
    loop.run();
    return id;
  }

 private:
  const Plan& plan_;
  std::vector<std::string> held_;

 public:
  Loop loop;
  std::map<std::string, StartActivation> holds;
  std::vector<std::string> cancelled;
  std::vector<CallId> ends;
  std::vector<FailureKind> failures;
  int delivered = 0;
};

Plan plan_of(const std::string& yaml) {
  Declarations declarations(1);
  declarations[0].name = "scripted";
  declarations[0].any_ports = true;
  LoadedWorkflow loaded = load_workflow("test.yaml", yaml);
  check(loaded.spec, declarations, loaded.diagnostics);
  Plan plan = compile(loaded.spec, declarations, loaded.diagnostics);
  REQUIRE(!has_errors(loaded.diagnostics));
  return plan;
}

const std::string joined = R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { any: { plugin: scripted }, ordered: { plugin: scripted, balance: session } }
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ], outputs: [v] }
  a: { run: any.run, inputs: [ { v: source.v } ], outputs: [v] }
  b: { run: any.run, inputs: [ { v: source.v } ], outputs: [v] }
  j: { run: ordered.run, inputs: [ { l: a.v, r: b.v } ], outputs: [v] }
outputs: { out: j.v }
)";

}  // namespace

TEST_CASE("a call that is given up ends when its last activation does, with nothing left") {
  const Plan plan = plan_of(joined);
  HeldRoles host(plan, {"a"});
  const CallId given_up = host.call(1);
  const CallId queued = host.call(1);
  CHECK(host.loop.counts().buckets == 1);  // the join has one of two
  host.loop.give_up(given_up);
  host.loop.run();
  CHECK(host.cancelled.front() == "a");
  CHECK(host.loop.counts().buckets == 0);
  CHECK(host.ends.empty());     // its role runs still, so the session's next call waits
  host.loop.give_up(given_up);  // again: nothing new
  host.loop.run();
  const StartActivation held = host.holds.at("a");
  host.hand_on(held);
  host.loop.run();
  REQUIRE(host.ends == std::vector<CallId>{given_up});
  CHECK(host.failures.front() == FailureKind::cancelled);
  CHECK(host.delivered == 0);
  // The next call runs as if there had been no other.
  host.hand_on(host.holds.at("a"));
  host.loop.run();
  CHECK(host.ends.back() == queued);
  CHECK(host.delivered == 1);
  CHECK(host.is_empty());
}

TEST_CASE("a call that waits or has ended is given up without a trace") {
  const Plan plan = plan_of(joined);
  HeldRoles host(plan, {"source"});
  const CallId first = host.call(1);
  const CallId second = host.call(1);
  host.loop.give_up(second);
  host.loop.run();
  CHECK(host.ends == std::vector<CallId>{second});
  host.hand_on(host.holds.at("source"));
  host.loop.run();
  CHECK(host.ends.back() == first);
  CHECK(host.delivered == 1);
  host.loop.give_up(first);
  host.loop.run();
  CHECK(host.ends.size() == 2);
  CHECK(host.is_empty());
}
