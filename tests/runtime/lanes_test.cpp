// Where roles run: lanes, replicas, sessions that stay on one, stepped roles beside each other.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "runtime/inproc/lane_threads.h"
#include "world.h"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

/// Who ran where.
class Seen {
 public:
  void note(const Activation& a, std::uint32_t replica) {
    const std::lock_guard lock(mutex_);
    threads_[std::string(a.node())].insert(std::this_thread::get_id());
    replicas_[std::string(a.session())].insert(replica);
  }
  std::set<std::thread::id> threads(const std::string& node) {
    const std::lock_guard lock(mutex_);
    return threads_[node];
  }
  std::set<std::uint32_t> replicas(const std::string& session) {
    const std::lock_guard lock(mutex_);
    return replicas_[session];
  }
  std::set<std::uint32_t> all_replicas() {
    const std::lock_guard lock(mutex_);
    std::set<std::uint32_t> all;
    for (const auto& [session, of_it] : replicas_) all.insert(of_it.begin(), of_it.end());
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::set<std::thread::id>> threads_;
  std::map<std::string, std::set<std::uint32_t>> replicas_;
};

Script pass(Seen& seen) {
  return [&seen](Activation& a, std::uint32_t replica) -> Result<void> {
    seen.note(a, replica);
    a.yield("v", make_text(a.input("x")->text));
    return {};
  };
}

}  // namespace

TEST_CASE("colocated roles never run at the same time, and none runs on its caller's thread") {
  Seen seen;
  std::atomic<int> inside{0};
  std::atomic<bool> alone{true};
  TestWorld world;
  world.add_scripted([&](Activation& a, std::uint32_t replica) -> Result<void> {
    const bool on_the_lane = a.node() != "three";
    if (on_the_lane && ++inside > 1) alone = false;
    seen.note(a, replica);
    for (int i = 0; i < 3; ++i) std::this_thread::yield();
    if (on_the_lane) --inside;
    a.yield("v", make_text(a.input("x")->text));
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles:
  a: { plugin: scripted }
  b: { plugin: scripted, colocate: a }
  c: { plugin: scripted }
nodes:
  one: { run: a.run, inputs: [ { x: inputs.x } ], outputs: [v] }
  two: { run: b.run, inputs: [ { x: one.v } ], outputs: [v] }
  three: { run: c.run, inputs: [ { x: two.v } ], outputs: [v] }
outputs: { out: three.v }
)");
  for (int round = 0; round < 50; ++round) {
    std::vector<Waiting> calls(4);
    for (std::size_t i = 0; i < calls.size(); ++i)
      world.runner->start({"s" + std::to_string(i), {{"x", make_text("x")}}}, calls[i].observer());
    for (Waiting& call : calls) CHECK(call.wait().ok);
  }
  CHECK(alone);
  for (const char* node : {"one", "two", "three"}) {
    CHECK(!seen.threads(node).contains(std::this_thread::get_id()));
    CHECK(seen.threads(node).size() <= 2);  // as many threads as lanes
  }
}

TEST_CASE("what comes for a lane that runs waits for it, though a thread is free") {
  Gate inside, go;
  std::atomic<int> in_a{0};
  std::atomic<bool> alone{true};
  TestWorld world;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    if (a.node() == "one") {
      if (++in_a > 1) alone = false;
      inside.open();
      if (a.input("x")->text == "held") go.wait();
      --in_a;
    }
    a.yield("v", make_text(a.input("x")->text));
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text, y: text }
roles: { a: { plugin: scripted }, b: { plugin: scripted } }
nodes:
  one: { run: a.run, inputs: [ { x: inputs.x } ], outputs: [v] }
  two: { run: b.run, inputs: [ { x: inputs.y } ], outputs: [v] }
outputs: { out: [one.v, two.v] }
)");
  Waiting held, behind, other;
  world.runner->start({"s", {{"x", make_text("held")}}}, held.observer());
  inside.wait();
  world.runner->start({"t", {{"x", make_text("behind")}}}, behind.observer());
  world.runner->start({"u", {{"y", make_text("other")}}}, other.observer());
  CHECK(other.wait().ok);  // the free thread has looked at what waited before
  CHECK(alone);
  CHECK(!behind.ended());
  go.open();
  CHECK(held.wait().ok);
  CHECK(behind.wait().ok);
  CHECK(alone);
}

namespace {

/// Counts who has come; all go on when the last has.
class Meeting {
 public:
  explicit Meeting(int all) : missing_(all) {}
  /// False: the call was stopped before all had come.
  bool all_come(const Activation& a) {
    --missing_;
    while (missing_ > 0 && !a.cancelled()) std::this_thread::yield();
    return missing_ <= 0;
  }

 private:
  std::atomic<int> missing_;
};

}  // namespace

TEST_CASE("roles of different lanes compute at the same time, each while its reader does") {
  TestWorld world;
  std::optional<Meeting> meeting;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    a.yield("v", make_text(a.input("x")->text));
    if (!meeting->all_come(a)) return Error{ErrorCode::cancelled, "alone"};
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles:
  a: { plugin: scripted }
  b: { plugin: scripted }
  c: { plugin: scripted }
  d: { plugin: scripted }
nodes:
  one: { run: a.run, inputs: [ { x: inputs.x } ], outputs: [v] }
  two: { run: b.run, inputs: [ { x: one.v } ], outputs: [v] }
  three: { run: c.run, inputs: [ { x: two.v } ], outputs: [v] }
  four: { run: d.run, inputs: [ { x: three.v } ], outputs: [v] }
outputs: { out: four.v }
limits: { deadline: 20s }
)");
  for (int i = 0; i < 50; ++i) {
    meeting.emplace(4);
    CHECK(world.call().second == "x ");
  }
}

TEST_CASE("replicas compute at the same time") {
  TestWorld world;
  std::optional<Meeting> meeting;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    if (!meeting->all_come(a)) return Error{ErrorCode::cancelled, "alone"};
    a.yield("v", make_text(a.input("x")->text));
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { any: { plugin: scripted, replicas: 3 } }
nodes:
  work: { run: any.work, inputs: [ { x: inputs.x } ], outputs: [v] }
outputs: { out: work.v }
limits: { deadline: 20s }
)");
  for (int round = 0; round < 20; ++round) {
    meeting.emplace(3);
    std::vector<Waiting> calls(3);
    for (std::size_t i = 0; i < calls.size(); ++i)
      world.runner->start({std::to_string(i), {{"x", make_text("x")}}}, calls[i].observer());
    for (Waiting& call : calls) CHECK(call.wait().ok);
  }
}

TEST_CASE("a frame goes to a role on another lane while the one that made it still runs") {
  Gate came;
  TestWorld world;
  world.add_scripted([&came](Activation& a, std::uint32_t) -> Result<void> {
    a.yield("v", make_text(a.input("x")->text));
    // Held back until this activation ends, the frame would never come there.
    if (a.node() == "one")
      came.wait();
    else
      came.open();
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { a: { plugin: scripted }, b: { plugin: scripted } }
nodes:
  one: { run: a.run, inputs: [ { x: inputs.x } ], outputs: [v] }
  two: { run: b.run, inputs: [ { x: one.v } ], outputs: [v] }
outputs: { out: two.v }
)");
  CHECK(world.call().second == "x ");
}

TEST_CASE("replicas share the work, or keep their sessions") {
  for (const bool by_session : {false, true}) {
    Seen seen;
    TestWorld world;
    world.add_scripted(pass(seen));
    world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { any: { plugin: scripted, replicas: 3)" +
              std::string(by_session ? ", balance: session" : "") + R"( } }
nodes:
  work: { run: any.work, inputs: [ { x: inputs.x } ], outputs: [v] }
outputs: { out: work.v }
)");
    for (int i = 0; i < 9; ++i)
      for (const char* session : {"a", "b", "c", "d"}) world.call(session);
    CHECK(seen.all_replicas() == std::set<std::uint32_t>{0, 1, 2});
    CHECK(seen.threads("work").size() <= 3);  // as many threads as lanes
    for (const char* session : {"a", "b", "c", "d"})
      CHECK(seen.replicas(session).size() == (by_session ? 1 : 3));
  }
}

TEST_CASE("stepped roles of one lane advance beside each other, whichever stands last") {
  Gate idle_done;
  TestWorld world;
  const auto counting = [&](const RoleMaking&) -> std::unique_ptr<SteppedRole> {
    auto steps = std::make_shared<int>(0);
    return std::make_unique<SteppedScript>(nullptr, [steps](Activation& a) {
      if (++*steps % 50 != 0) return false;
      a.yield("v", make_text(a.input("x")->text + "+"));
      return true;
    });
  };
  world.add_stepped("stepped", counting);
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles:
  a: { plugin: stepped }
  b: { plugin: stepped, colocate: a }
nodes:
  one: { run: a.run, inputs: [ { x: inputs.x } ], outputs: [v] }
  two: { run: b.run, inputs: [ { x: one.v } ], outputs: [v] }
outputs: { out: two.v }
limits: { deadline: 5s }
)");
  CHECK(world.call().second == "x++ ");
}

TEST_CASE("a stepped role's frame is read on its lane while the role goes on") {
  Gate read;
  int steps = 0;
  TestWorld world;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    read.open();
    a.yield("v", make_text(a.input("x")->text + "!"));
    return {};
  });
  world.add_stepped("stepped", [&](const RoleMaking&) -> std::unique_ptr<SteppedRole> {
    return std::make_unique<SteppedScript>(nullptr, [&](Activation& a) {
      if (++steps == 1) a.yield("v", make_text("begun"));
      if (steps > 100) std::this_thread::yield();  // to whoever brings the frame here
      return read.is_open() || steps == 1'000'000;
    });
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles:
  any: { plugin: scripted }
  slow: { plugin: stepped, colocate: any }
nodes:
  one: { run: slow.run, inputs: [ { x: inputs.x } ], outputs: [v] }
  two: { run: any.run, inputs: [ { x: one.v } ], outputs: [v] }
outputs: { out: two.v }
)");
  CHECK(world.call().second == "begun! ");
  CHECK(steps < 1'000'000);
}

TEST_CASE("a node's deadline ends its activation, tells its role, and the call goes on") {
  std::atomic<bool> told{false};
  Gate gate;
  TestWorld world;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    if (a.node() == "slow") {
      while (!a.cancelled()) std::this_thread::yield();
      told = true;
      gate.wait();
      a.yield("v", make_text("late"));
      return {};
    }
    a.yield("v", make_text(std::string(a.node())));
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { any: { plugin: scripted }, other: { plugin: scripted } }
nodes:
  slow: { run: any.run, inputs: [ { x: inputs.x } ], outputs: [v], deadline: 1s, on_error: skip }
  quick: { run: other.run, inputs: [ { x: inputs.x } ], outputs: [v] }
outputs: { out: [slow.v, quick.v] }
limits: { deadline: 5s }
)");
  const auto [outcome, text] = world.call();
  CHECK(outcome.ok);
  CHECK(text == "quick ");
  gate.open();
  world.until_idle();
  CHECK(told);
  CHECK(world.call("t").second == "quick ");  // the engine does not mix up old and new
}

TEST_CASE("a failure cancels what runs beside it where the workflow says so") {
  for (int i = 0; i < 20; ++i) {
    Gate waiting;
    std::atomic<bool> told{false};
    TestWorld world;
    world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
      if (a.node() == "fails") {
        waiting.wait();
        return Error{ErrorCode::unavailable, "away"};
      }
      waiting.open();
      while (!a.cancelled()) std::this_thread::yield();
      told = true;
      return {};
    });
    world.run(R"(
sluice: 1
workflow: test
on_error: cancel
inputs: { x: text }
roles: { any: { plugin: scripted }, other: { plugin: scripted } }
nodes:
  fails: { run: any.run, inputs: [ { x: inputs.x } ], outputs: [v] }
  waits: { run: other.run, inputs: [ { x: inputs.x } ], outputs: [v] }
outputs: { out: [fails.v, waits.v] }
limits: { deadline: 5s }
)");
    const CallOutcome outcome = world.call().first;
    CHECK(outcome.error.message == "away");
    CHECK(outcome.node == "fails");
    CHECK(told);
  }
}

TEST_CASE("a failure after a frame is a failure, however close they are") {
  TestWorld world;
  world.add_scripted([](Activation& a, std::uint32_t) -> Result<void> {
    a.yield("v", make_text("one"));
    return Error{ErrorCode::unavailable, "then it broke"};
  });
  world.run(one_node());
  for (int i = 0; i < 2000; ++i) {
    const auto [outcome, text] = world.call("s" + std::to_string(i % 5));
    REQUIRE(!outcome.ok);
    REQUIRE(outcome.error.message == "then it broke");
    REQUIRE(text == "one ");
  }
}

TEST_CASE("a frame for a colocated role and the failure after it both arrive") {
  for (const bool fails : {false, true}) {
    TestWorld world;
    world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
      a.yield("v", make_text(a.input("x")->text + std::string(a.node())));
      if (a.node() == "one") a.yield("v", make_text("again"));
      if (fails && a.node() == "one") return Error{ErrorCode::unavailable, "then it broke"};
      return {};
    });
    world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { a: { plugin: scripted }, b: { plugin: scripted, colocate: a } }
nodes:
  one: { run: a.run, inputs: [ { x: inputs.x } ], outputs: [v] }
  two: { run: b.run, inputs: [ { x: one.v } ], outputs: [v] }
outputs: { out: two.v }
)");
    const auto [outcome, text] = world.call();
    CHECK(outcome.ok == !fails);
    CHECK(text == "xonetwo againtwo ");
    if (fails) CHECK(outcome.error.message == "then it broke");
  }
}

TEST_CASE("a session that begins when another has ended waits for nobody else") {
  Gate inside, gate;
  TestWorld world;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    if (a.input("x")->text == "wait") {
      inside.open();
      gate.wait();
    }
    a.yield("v", make_text(a.input("x")->text));
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { any: { plugin: scripted, replicas: 2 } }
nodes:
  work: { run: any.work, inputs: [ { x: inputs.x } ], outputs: [v] }
outputs: { out: work.v }
limits: { deadline: 5s }
)");
  world.call("a");
  world.call("b");
  CHECK(world.runner->end_session("a").ok());
  Waiting waiting;
  const auto held = world.runner->start({"b", {{"x", make_text("wait")}}}, waiting.observer());
  inside.wait();
  // The other replica is free; only a session that is taken for `b` would wait.
  CHECK(world.call("c").second == "x ");
  gate.open();
  CHECK(waiting.wait().ok);
}

TEST_CASE("roles know their session by name, also after others have ended") {
  TestWorld world;
  world.add_scripted([](Activation& a, std::uint32_t) -> Result<void> {
    a.yield("v", make_text(std::string(a.session())));
    return {};
  });
  world.run(one_node());
  CHECK(world.call("a").second == "a ");
  CHECK(world.call("b").second == "b ");
  CHECK(world.runner->end_session("a").ok());
  for (const char* session : {"c", "d", "b", "a", "c", "d"})
    CHECK(world.call(session).second == std::string(session) + " ");
}

TEST_CASE("a session with two calls cannot end when one of them has") {
  Gate first, second;
  TestWorld world;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    (a.input("x")->text == "1" ? first : second).wait();
    a.yield("v", make_text(a.input("x")->text));
    return {};
  });
  world.run(one_node());
  Waiting one, two;
  const auto a = world.runner->start({"s", {{"x", make_text("1")}}}, one.observer());
  const auto b = world.runner->start({"s", {{"x", make_text("2")}}}, two.observer());
  CHECK(world.runner->end_session("s").error().message ==
        "session 's' has 2 calls under way; end it when they have ended");
  first.open();
  CHECK(one.wait().ok);
  CHECK(world.runner->end_session("s").error().message ==
        "session 's' has 1 call under way; end it when it has ended");
  second.open();
  CHECK(two.wait().ok);
  CHECK(world.runner->end_session("s").ok());
}

namespace {

/// `turn` and `back` go round on one lane until `turn` has had enough.
const std::string round_on_a_lane = R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { a: { plugin: scripted }, b: { plugin: scripted, colocate: a } }
nodes:
  turn: { run: a.turn, inputs: [ { x: inputs.x }, { x: back.v } ], outputs: [v, done] }
  back: { run: b.back, inputs: [ { x: turn.v } ], outputs: [v] }
outputs: { out: turn.done }
limits: { loop_iterations: 10000 }
)";

}  // namespace

TEST_CASE("what a role causes on its lane runs next, in the order of its frames") {
  std::string order;
  TestWorld world;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    const std::string came = a.input("x")->text;
    if (a.node() == "source") {
      for (const char* text : {"1", "2", "3"}) a.yield("x", make_text(text));
      return {};
    }
    order += std::string(a.node()) + came + " ";
    a.yield("x", make_text(came));
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { a: { plugin: scripted }, b: { plugin: scripted, colocate: a } }
nodes:
  source: { run: a.go, inputs: [ { x: inputs.x } ] }
  p: { run: a.go, inputs: [ { x: source.x } ] }
  q: { run: b.go, inputs: [ { x: p.x } ] }
outputs: { out: q.x }
)");
  // Not while the thread that started the call still drives the engines: it may be kept from that.
  const std::string next = "p1 q1 p2 q2 p3 q3 ";
  for (int calls = 0; calls < 100 && order != next; ++calls) {
    order.clear();
    CHECK(world.call().second == "1 2 3 ");
  }
  CHECK(order == next);
}

TEST_CASE("a long loop on a lane lets others have their turn") {
  Gate begun, go;
  int turns = 0;
  int turns_before_short = 0;
  TestWorld world;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    const PayloadRef& value = a.inputs("x").front();
    if (value->text == "short") turns_before_short = turns;
    if (a.node() == "turn" && value->text == "long") {
      if (++turns == 1) {
        begun.open();
        go.wait();
      }
    }
    const bool done = value->text == "short" || turns == 5000;
    a.yield(a.node() == "turn" && done ? "done" : "v", value);
    return {};
  });
  world.run(round_on_a_lane);
  Waiting round, quick;
  world.runner->start({"s", {{"x", make_text("long")}}}, round.observer());
  begun.wait();
  world.runner->start({"t", {{"x", make_text("short")}}}, quick.observer());
  go.open();
  CHECK(quick.wait().ok);
  CHECK(round.wait().ok);
  CHECK(turns == 5000);
  CHECK(turns_before_short < 200);  // two lines of the loop, not all of it
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need memory for each
TEST_CASE("where there can be no more threads the lanes do not run, and it is said what of") {
  LaneThreads lanes;
  for (int i = 0; i < 300; ++i) lanes.make();
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit little{pages * 4096 + (std::uint64_t{256} << 20U), before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_AS, &little) == 0);  // stacks of 300 threads do not fit
  const Result<void> run = lanes.run(1);
  setrlimit(RLIMIT_AS, &before);
  REQUIRE(!run.ok());
  CHECK(run.error().code == ErrorCode::exhausted);
  CHECK(run.error().message.starts_with("the thread of lane "));
}
#endif
