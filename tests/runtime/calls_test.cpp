// Calls that end for their callers whatever their roles do: deadlines, cancellation, the end of the
// runner.
#include <catch2/catch.hpp>
#include <mutex>
#include <thread>

#include "world.h"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

RunnerOptions with_grace(std::chrono::milliseconds grace) {
  RunnerOptions options;
  options.grace = grace;
  return options;
}

/// A role that never looks away from its gate, and never at `cancelled()`.
struct Deaf {
  Gate inside, gate;
  std::atomic<int> runs{0};
  Script script() {
    return [this](Activation& a, std::uint32_t) -> Result<void> {
      if (++runs == 1) {
        inside.open();
        gate.wait();
      }
      a.yield("v", make_text(a.input("x")->text));
      return {};
    };
  }
};

}  // namespace

TEST_CASE("a deadline ends a call beside a role that never looks; what it does later is dropped") {
  Deaf deaf;
  TestWorld world;
  world.add_scripted(deaf.script());
  world.run(one_node("limits: { deadline: 1s }\n"), with_grace(20ms));
  const auto [outcome, text] = world.call();
  CHECK(!outcome.ok);
  CHECK(outcome.error.code == ErrorCode::deadline);
  CHECK(outcome.node == "work");
  CHECK(outcome.error.message ==
        "the call did not end within its deadline of 1000 ms (limits: deadline); node 'work' still "
        "runs 20 ms after it was told to stop");
  CHECK(world.runner->counts().given_up == 1);
  CHECK(world.runner->counts().activations == 1);
  CHECK(!world.runner->end_session("s").ok());  // its role holds it still
  deaf.gate.open();
  world.until_idle();
  CHECK(world.runner->counts().given_up == 0);
  CHECK(world.runner->counts().dropped == 1);
  CHECK(world.runner->end_session("s").ok());
  const auto [again, more] = world.call("s", "later");
  CHECK(again.ok);
  CHECK(more == "later ");
}

TEST_CASE("a call of its own deadline, and a call that waits behind one that was given up") {
  Deaf deaf;
  TestWorld world;
  world.add_scripted(deaf.script());
  world.run(one_node(), with_grace(10ms));
  CallRequest request{"s", {{"x", make_text("first")}}, 1s};
  const CallOutcome first = world.runner->call(request, nullptr);
  CHECK(first.error.code == ErrorCode::deadline);
  CHECK(first.error.message.find("1000 ms (the call's own)") != std::string::npos);
  // Calls of a session follow each other, so the next one waits, and has a deadline too.
  request.inputs = {{"x", make_text("second")}};
  const CallOutcome second = world.runner->call(request, nullptr);
  CHECK(second.error.code == ErrorCode::deadline);
  CHECK(second.node.empty());
  Waiting third;
  const auto handle = world.runner->start({"s", {{"x", make_text("third")}}}, third.observer());
  deaf.gate.open();
  CHECK(third.wait().ok);
  CHECK(third.text == "third ");
  CHECK(deaf.runs == 2);  // the second never began
}

TEST_CASE("a call that another caller holds up is given up, and no node is blamed") {
  Gate inside, gate;
  TestWorld world;
  world.add_scripted([](Activation& a, std::uint32_t) -> Result<void> {
    a.yield("v", make_text(a.input("x")->text));
    return {};
  });
  world.run(one_node(), with_grace(10ms));
  Waiting slow, other;
  CallObserver observer = slow.observer();
  observer.on_output = [&](std::string_view, const PayloadRef&) {
    inside.open();
    gate.wait();  // whoever drives the workflow stands here
  };
  // On a thread of its own: who starts a call may be the one who drives.
  std::shared_ptr<CallHandle> first;
  std::thread caller([&] {
    first = world.runner->start({"s", {{"x", make_text("")}}}, std::move(observer));
  });
  inside.wait();
  const auto second = world.runner->start({"t", {{"x", make_text("")}}, 50ms}, other.observer());
  const CallOutcome outcome = other.wait();
  gate.open();
  caller.join();
  CHECK(outcome.error.code == ErrorCode::deadline);
  CHECK(outcome.node.empty());
  CHECK(outcome.error.message.ends_with("; it was given up 10 ms later"));
  CHECK(slow.wait().ok);
  world.until_idle();
  CHECK(other.ends == 1);
}

TEST_CASE("a cancelled call ends at once where roles look, and within the grace where not") {
  for (const bool looks : {true, false}) {
    Gate inside, gate;
    TestWorld world;
    world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
      inside.open();
      while (looks && !a.cancelled()) std::this_thread::yield();
      if (looks) return Error{ErrorCode::cancelled, "seen"};
      gate.wait();
      a.yield("v", make_text("too late"));
      return {};
    });
    world.run(one_node(), with_grace(looks ? 1h : 10ms));
    Waiting waiting;
    const auto handle = world.runner->start({"s", {{"x", make_text("")}}}, waiting.observer());
    inside.wait();
    CHECK(!waiting.ended());
    handle->cancel();
    handle->cancel();
    CHECK(waiting.wait().error.code == ErrorCode::cancelled);
    gate.open();
    world.until_idle();
    CHECK(waiting.ends == 1);
    CHECK(waiting.text.empty());
    CHECK(world.runner->counts().dropped == (looks ? 0 : 1));
  }
}

TEST_CASE("a payload that a given-up role holds goes when the role returns") {
  Deaf deaf;
  TestWorld world;
  world.add_scripted(deaf.script());
  world.run(one_node(), with_grace(1ms));
  const PayloadRef large = make_text(std::string(1 << 20, 'x'));
  CHECK(!world.runner->call({"s", {{"x", large}}, 1s}, nullptr).ok);
  CHECK(large->references() > 1);
  deaf.gate.open();
  world.until_idle();
  CHECK(large->references() == 1);
}

TEST_CASE("many calls are under way from one thread, each ends once with its own outputs") {
  Gate gate;
  std::atomic<int> begun{0};
  TestWorld world;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    if (++begun == 1) gate.wait();
    a.yield("v", make_text(std::string(a.session()) + "=" + a.input("x")->text));
    return {};
  });
  world.run(one_node());
  constexpr int calls = 500;
  std::vector<std::unique_ptr<Waiting>> waiting;
  for (int i = 0; i < calls; ++i) {
    waiting.push_back(std::make_unique<Waiting>());
    const auto handle =
        world.runner->start({"s" + std::to_string(i % 7), {{"x", make_text(std::to_string(i))}}},
                            waiting.back()->observer());
  }
  CHECK(world.runner->counts().calls == calls);
  gate.open();
  for (int i = 0; i < calls; ++i) {
    CHECK(waiting[static_cast<std::size_t>(i)]->wait().ok);
    CHECK(waiting[static_cast<std::size_t>(i)]->text ==
          "s" + std::to_string(i % 7) + "=" + std::to_string(i) + " ");
  }
  world.until_idle();
}

TEST_CASE("what roles warn of stands in the outcome behind the node's name, of a failure too") {
  for (const bool fails : {false, true}) {
    TestWorld world;
    world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
      for (const char* text : {"two", "one", "two"}) a.warn(text);
      if (fails) return invalid_argument("it broke");
      a.yield("v", make_text("x"));
      return {};
    });
    world.run(one_node());
    const CallOutcome outcome = world.runner->call({"s", {{"x", make_text("x")}}},
                                                   [](std::string_view, const PayloadRef&) {});
    CHECK(outcome.ok == !fails);
    CHECK(outcome.warnings == std::vector<std::string>{"work: one", "work: two (2 times)"});
    world.until_idle();
  }
}

TEST_CASE("a role that warns without end is cut short, and that is said") {
  TestWorld world;
  world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
    for (int i = 0; i < 5000; ++i) a.warn(std::to_string(i));
    a.yield("v", make_text("x"));
    return {};
  });
  world.run(one_node());
  const CallOutcome outcome = world.runner->call({"s", {{"x", make_text("x")}}},
                                                 [](std::string_view, const PayloadRef&) {});
  REQUIRE(outcome.warnings.size() == 52);
  CHECK(outcome.warnings[50] == "950 more warnings");
  CHECK(outcome.warnings[51] == "4000 more warnings of roles");
  world.until_idle();
}

TEST_CASE("an observer may start and cancel calls") {
  TestWorld world;
  world.add_scripted([](Activation& a, std::uint32_t) -> Result<void> {
    a.yield("v", make_text(a.input("x")->text));
    return {};
  });
  world.run(one_node());
  Waiting second, third;
  std::shared_ptr<CallHandle> handle;
  const auto first = world.runner->start(
      {"s", {{"x", make_text("one")}}},
      {[&](std::string_view, const PayloadRef&) {
         handle = world.runner->start({"s", {{"x", make_text("two")}}}, second.observer());
         const auto cancelled =
             world.runner->start({"s", {{"x", make_text("three")}}}, third.observer());
         cancelled->cancel();
       },
       nullptr});
  CHECK(second.wait().ok);
  CHECK(second.text == "two ");
  CHECK(third.wait().error.code == ErrorCode::cancelled);
}

TEST_CASE("many calls that come while an observer takes its time each end once, and the next too") {
  // One thread handles so many events of others and hands over: the next one begins where it ended.
  TestWorld world;
  world.add_scripted([](Activation& a, std::uint32_t) -> Result<void> {
    a.yield("v", make_text(a.input("x")->text));
    return {};
  });
  world.run(one_node());
  for (const std::size_t count : {255U, 256U, 257U, 600U}) {
    Gate begun, go_on;
    Waiting first;
    CallObserver slow = first.observer();
    slow.on_output = [&](std::string_view, const PayloadRef&) {
      begun.open();
      go_on.wait();
    };
    // On a thread of its own: who starts a call may be the one who drives.
    std::thread caller([&] {
      const auto held = world.runner->start({"first", {{"x", make_text("first")}}}, slow);
    });
    begun.wait();
    std::vector<Waiting> others(count);
    std::vector<std::shared_ptr<CallHandle>> handles;
    for (std::size_t i = 0; i < count; ++i)
      handles.push_back(world.runner->start({"s" + std::to_string(i), {{"x", make_text("x")}}},
                                            others[i].observer()));
    go_on.open();
    caller.join();
    CHECK(first.wait().ok);
    for (Waiting& other : others) {
      CHECK(other.wait().ok);
      CHECK(other.text == "x ");
      CHECK(other.ends == 1);
    }
    world.until_idle();
  }
}

TEST_CASE("calls that call each other go on, however long one thread has driven") {
  // Each is refused at once, and its end starts the next: news without end for whoever drives.
  TestWorld world;
  Deaf deaf;
  world.add_scripted(deaf.script());
  world.run(one_node("limits: { calls: 1 }\n"));
  Waiting first, last;
  const auto held = world.runner->start({"a", {{"x", make_text("x")}}}, first.observer());
  deaf.inside.wait();
  std::size_t refused = 0;
  std::mutex kept;  // started from here first, then by whoever drives
  std::vector<std::shared_ptr<CallHandle>> handles;
  std::function<void()> next = [&] {
    CallObserver observer = last.observer();
    if (refused < 2000)
      observer.on_end = [&](const CallOutcome& outcome) {
        refused += outcome.error.code == ErrorCode::exhausted ? 1 : 0;
        next();
        if (refused == 1) next();  // from now on they come in twos
      };
    auto handle = world.runner->start({"b", {{"x", make_text("x")}}}, std::move(observer));
    const std::lock_guard lock(kept);
    handles.push_back(std::move(handle));
  };
  next();
  CHECK(last.wait().error.code == ErrorCode::exhausted);
  deaf.gate.open();
  CHECK(first.wait().ok);
  world.until_idle();
  CHECK(world.call("c", "y").second == "y ");
  CHECK(last.ends == 2);
  CHECK(refused >= 2000);
}

TEST_CASE("a runner that is destroyed ends its calls with an error first, then waits for roles") {
  Deaf deaf;
  auto world = std::make_unique<TestWorld>();
  world->add_scripted(deaf.script());
  world->run(one_node());
  Waiting running, queued;
  const auto first = world->runner->start({"s", {{"x", make_text("")}}}, running.observer());
  const auto second = world->runner->start({"s", {{"x", make_text("")}}}, queued.observer());
  std::optional<CallOutcome> blocked;
  std::thread caller([&, runner = world->runner.get()] {
    blocked = runner->call({"t", {{"x", make_text("")}}}, nullptr);
  });
  deaf.inside.wait();
  while (world->runner->counts().calls < 3) std::this_thread::yield();
  std::thread destroyer([&] { world->runner.reset(); });
  for (Waiting* one : {&running, &queued}) {
    CHECK(one->wait().error.code == ErrorCode::unavailable);
    CHECK(one->outcome.error.message == "the runner was destroyed before the call ended");
  }
  caller.join();
  CHECK(blocked->error.code == ErrorCode::unavailable);
  deaf.gate.open();
  destroyer.join();
  first->cancel();  // there is nothing left to cancel
  CHECK(running.ends == 1);
  CHECK(running.text.empty());
  CHECK(deaf.runs == 1);  // what had not begun never does
}

TEST_CASE("a request that is refused ends before start returns") {
  TestWorld world;
  world.add_scripted([](Activation&, std::uint32_t) -> Result<void> { return {}; });
  world.run(one_node());
  const auto refused = [&](const std::string& name, PayloadRef value) {
    Waiting waiting;
    const auto handle = world.runner->start({"s", {{name, std::move(value)}}}, waiting.observer());
    CHECK(waiting.ends == 1);
    CHECK(waiting.outcome.error.code == ErrorCode::invalid_argument);
    return waiting.outcome.error.message;
  };
  CHECK(refused("y", make_text("")) == "the workflow has no input 'y'");
  CHECK(refused("x", make_number(3)) == "the call gave number in 'x', which is declared as text");
  CHECK(refused("x", PayloadRef()) == "input 'x' has no value");
  CHECK(world.runner->counts().calls == 0);
}

TEST_CASE("what a node makes of nothing is young") {
  TestWorld world;
  world.add_scripted([](Activation& a, std::uint32_t) -> Result<void> {
    if (a.node() != "quiet") a.yield("v", make_text("here"));
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { any: { plugin: scripted } }
nodes:
  quiet: { run: any.quiet, inputs: [ { x: inputs.x } ], outputs: [v] }
  none: { run: any.none, inputs: [ { x: quiet.v } ], count: { x: 0 }, outputs: [v] }
  young: { run: any.young, inputs: [ { x: none.v } ], outputs: [v], max_age: 10s }
outputs: { out: young.v }
)");
  const auto [outcome, text] = world.call();
  CHECK(outcome.ok);
  CHECK(text == "here ");
}

TEST_CASE("inputs older than a node's max_age are dropped, and the call says so") {
  TestWorld world;
  world.add_scripted([](Activation& a, std::uint32_t) -> Result<void> {
    const auto begun = std::chrono::steady_clock::now();
    while (a.node() == "slow" && std::chrono::steady_clock::now() - begun < 3ms)
      std::this_thread::yield();
    a.yield("v", make_text(a.input("x")->text));
    return {};
  });
  const auto workflow = [](const std::string& age) {
    return R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { any: { plugin: scripted } }
nodes:
  slow: { run: any.slow, inputs: [ { x: inputs.x } ], outputs: [v] }
  late: { run: any.late, inputs: [ { x: slow.v } ], outputs: [v], max_age: )" +
           age + R"( }
outputs: { out: late.v }
)";
  };
  world.run(workflow("2ms"));
  const auto [dropped, nothing] = world.call();
  CHECK(dropped.ok);
  CHECK(nothing.empty());
  REQUIRE(!dropped.warnings.empty());
  CHECK(dropped.warnings[0].find("late: inputs older than max_age (2 ms)") == 0);
  world.run(workflow("60s"));
  CHECK(world.call().second == "x ");
}

TEST_CASE("of a camera's frames a slow node sees the first and the newest, and the call says so") {
  for (const char* balance : {"round_robin", "session"}) {
    TestWorld world;
    Gate filmed;
    constexpr int frames = 100;
    RunnerOptions traced;
    traced.trace = 1000;
    world.add_scripted([&](Activation& a, std::uint32_t) -> Result<void> {
      if (a.node() == "see") {
        filmed.wait();
        a.yield("v", a.inputs("x")[0]);
        return {};
      }
      for (int i = 0; i < frames; ++i) a.yield("v", make_text(std::to_string(i)));
      filmed.open();
      return {};
    });
    world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { camera: { plugin: scripted }, eye: { plugin: scripted, balance: )" +
                  std::string(balance) + R"( } }
nodes:
  film: { run: camera.film, inputs: [ { x: inputs.x } ], outputs: [v] }
  see: { run: eye.see, inputs: [ { x: film.v } ], outputs: [v], on_full: drop_oldest }
outputs: { out: see.v }
)",
              traced);
    const auto [outcome, text] = world.call();
    CHECK(outcome.ok);
    CHECK(text.starts_with("0 "));
    CHECK(text.ends_with(" 99 "));
    const auto dropped = frames - std::ranges::count(text, ' ');
    CHECK(dropped > frames / 2);  // all but what was on its way to the engine
    CHECK(outcome.warnings ==
          std::vector<std::string>{
              "see: inputs that waited were dropped for newer ones (on_full: drop_oldest, queue: "
              "1) (" +
              std::to_string(dropped) + " times)"});
    CHECK(world.runner->counts().calls == 0);
    const Trace trace = world.runner->trace();
    CHECK(trace.drops.size() == static_cast<std::size_t>(dropped));
    CHECK(trace.drops_left_out == 0);
    for (const Drop& drop : trace.drops) {
      CHECK(drop.call == 0);
      CHECK(drop.node == 2);
      CHECK(drop.for_newer);
      CHECK(drop.at >= trace.calls[0].arrived);
      CHECK(drop.at <= trace.calls[0].done);
    }
  }
}

TEST_CASE("a call's tensor is held to the ports that read it") {
  TestWorld world;
  PluginDeclaration arm;
  arm.name = "arm";
  arm.interfaces = {
      {.name = "move",
       .inputs = {{"state", ValueType::tensor, "joints", false, 0, Dtype::f32, {any_size, 3}}},
       .outputs = {{"v", ValueType::text, "done"}},
       .frames = {},
       .yields_max = 1}};
  world.add(arm, [](Activation& a, std::uint32_t) -> Result<void> {
    a.yield("v", make_text(std::to_string(a.input("state")->tensor.f32().size())));
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: tensor }
roles: { any: { plugin: arm } }
nodes:
  work: { run: any.move, inputs: [ { state: inputs.x } ] }
outputs: { out: work.v }
)");
  const auto call = [&](Dtype dtype, std::vector<std::int64_t> shape) {
    std::string came;
    const CallOutcome outcome = world.runner->call(
        {"s", {{"x", make_tensor(std::move(Tensor::zeros(dtype, std::move(shape))).value())}}},
        [&](std::string_view, const PayloadRef& value) { came += value->text; });
    return outcome.ok ? came : outcome.error.message;
  };
  CHECK(call(Dtype::f32, {2, 3}) == "6");
  const std::string declared = " in 'x', which is declared as f32[?, 3]";
  CHECK(call(Dtype::i64, {2, 3}) == "the call gave i64[2, 3]" + declared);
  CHECK(call(Dtype::f32, {3}) == "the call gave f32[3]" + declared);
  CHECK(call(Dtype::f32, {2, 4}) == "the call gave f32[2, 4]" + declared);
}

TEST_CASE("a call beyond the limit of calls is refused at once, and a later one is taken") {
  Deaf deaf;
  TestWorld world;
  world.add_scripted(deaf.script());
  world.run(one_node("limits: { calls: 2 }\n"));
  Waiting running, queued;
  const auto first = world.runner->start({"s", {{"x", make_text("1")}}, {}}, running.observer());
  deaf.inside.wait();
  const auto second = world.runner->start({"s", {{"x", make_text("2")}}, {}}, queued.observer());
  const auto [refused, text] = world.call("t");
  CHECK(refused.error.code == ErrorCode::exhausted);
  CHECK(refused.error.message ==
        "workflow 'test' has 2 calls under way, as many as it takes at once (limits: calls); call "
        "again when some have ended");
  CHECK(refused.node.empty());
  CHECK(text.empty());
  CHECK(world.runner->counts().refused == 1);
  CHECK(world.runner->counts().calls == 2);
  CHECK(world.runner->end_session("t").ok());  // nothing of it is left
  deaf.gate.open();
  CHECK(running.wait().ok);
  CHECK(queued.wait().ok);
  CHECK(world.call("t").first.ok);
  CHECK(world.runner->counts().refused == 1);
}

TEST_CASE("what a call held goes when it is given up, and not only when its role has returned") {
  Deaf deaf;
  TestWorld world;
  world.add_scripted([&, work = deaf.script()](Activation& a, std::uint32_t r) -> Result<void> {
    if (a.node() != "sort") return work(a, r);
    const PayloadRef x(a.input("x"));
    a.yield(x->text == "slow" ? "slow" : "quick", x);
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { any: { plugin: scripted }, first: { plugin: scripted } }
nodes:
  sort: { run: first.sort, inputs: [ { x: inputs.x } ], outputs: [slow, quick] }
  work: { run: any.work, inputs: [ { x: sort.slow } ], outputs: [v] }
  both: { run: any.both, inputs: [ { x: work.v, kept: sort.slow } ], outputs: [v] }
outputs: { out: both.v, quick: sort.quick }
)",
            with_grace(0ms));
  const PayloadRef input = make_text("slow");
  Waiting first;
  const auto handle = world.runner->start({"s", {{"x", input}}}, first.observer());
  deaf.inside.wait();
  const std::uint32_t held = input->references();
  handle->cancel();
  CHECK(first.wait().error.code == ErrorCode::cancelled);
  CHECK(world.call("t", "quick").first.ok);  // that comes behind its giving up
  CHECK(input->references() < held);  // what waited for `work` is gone, what `work` reads is not
  CHECK(world.runner->counts().activations == 1);
  deaf.gate.open();
  world.until_idle();
}

TEST_CASE("a call that was given up counts until its role has returned") {
  Deaf deaf;
  TestWorld world;
  world.add_scripted(deaf.script());
  world.run(one_node("limits: { calls: 1, deadline: 1s }\n"), with_grace(10ms));
  CHECK(world.call().first.error.code == ErrorCode::deadline);
  CHECK(world.call("t").first.error.code == ErrorCode::exhausted);
  deaf.gate.open();
  world.until_idle();
  CHECK(world.call("t").first.ok);
}
