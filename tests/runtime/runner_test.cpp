// Whole workflows through the runner: what a caller sees, with slow, failing and wrong roles.
#include "runtime/runner.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <thread>

#include "base/worker_pool.h"
#include "graph/check.h"
#include "workflows/load.h"
#include "world.h"

using namespace sluice;

namespace {

struct World {
  Catalog catalog;
  LoadedWorkflow loaded;
  std::unique_ptr<Runner> runner;

  World(const std::string& yaml, Script script, RunnerOptions options = {}) {
    Plugin plugin;
    plugin.declaration.name = "scripted";
    plugin.declaration.any_ports = true;
    plugin.make = [script](const RoleMaking& making) -> Result<RoleInstance> {
      return RoleInstance(
          std::unique_ptr<Role>(std::make_unique<ScriptedRole>(script, making.replica)));
    };
    catalog.add(std::move(plugin));
    loaded = load_workflow("test.yaml", yaml);
    check(loaded.spec, catalog.declarations(), loaded.diagnostics);
    const Plan plan = compile(loaded.spec, catalog.declarations(), loaded.diagnostics);
    REQUIRE(!has_errors(loaded.diagnostics));
    runner = std::move(Runner::create(loaded.spec, plan, catalog, std::move(options))).value();
  }
  std::pair<CallOutcome, std::string> call(const std::string& session = "s") {
    std::string text;
    CallOutcome outcome =
        runner->call({session, {{"x", make_text("x")}}},
                     [&](std::string_view, const PayloadRef& value) { text += value->text + " "; });
    return {std::move(outcome), text};
  }
};

const std::string two_encoders = R"(
sluice: 1
workflow: test
inputs: { x: text }
roles:
  any: { plugin: scripted }
  encoder: { plugin: scripted, replicas: 2 }
  model: { plugin: scripted, balance: session }
nodes:
  source: { run: any.source, inputs: [ { x: inputs.x } ] }
  see:    { run: encoder.see, inputs: [ { v: source.v } ] }
  code:   { run: any.code, inputs: [ { v: source.v } ] }
  answer: { run: model.answer, inputs: [ { s: see.v, c: code.v } ] }
outputs: { out: answer.v }
)";

}  // namespace

TEST_CASE("a join waits for a slow encoder replica, and the answer is unchanged") {
  std::string fast;
  for (const bool slow : {false, true}) {
    Gate later;
    std::atomic<int> coded{0};
    World world(two_encoders, [&](Activation& a, std::uint32_t replica) -> Result<void> {
      if (a.node() == "source") {
        for (int i = 0; i < 4; ++i) a.yield("v", make_text(std::to_string(i)));
        return {};
      }
      // One of the two encoders answers only after everything else is done.
      if (a.node() == "see" && replica == 0 && slow) later.wait();
      if (a.node() == "code" && ++coded == 4) later.open();
      if (a.node() == "answer")
        a.yield("v", make_text(a.input("s")->text + "=" + a.input("c")->text));
      else
        a.yield("v", make_text(a.input("v")->text));
      return {};
    });
    const auto [outcome, text] = world.call();
    CHECK(outcome.ok);
    if (!slow) fast = text;
    CHECK(text == fast);
  }
  CHECK(fast == "0=0 1=1 2=2 3=3 ");
}

TEST_CASE("a role that fails, throws or yields a wrong field fails its call only") {
  const std::string yaml = R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { any: { plugin: scripted } }
nodes:
  work: { run: any.work, inputs: [ { x: inputs.x } ], outputs: [v] }
outputs: { out: work.v }
)";
  int turn = 0;
  World world(yaml, [&](Activation& a, std::uint32_t) -> Result<void> {
    switch (turn++) {
      case 0:
        return Error{ErrorCode::unavailable, "the device is away"};
      case 1:
        throw std::runtime_error("something else");
      case 2:
        a.yield("w", make_text("wrong"));
        return {};
      case 3:
        a.yield("v", PayloadRef());
        return {};
      default:
        a.yield("v", make_text("well"));
        return {};
    }
  });
  const auto expect = [&](const std::string& message, ErrorCode code) {
    const auto [outcome, text] = world.call();
    CHECK(!outcome.ok);
    CHECK(outcome.node == "work");
    CHECK(outcome.error.code == code);
    CHECK(outcome.error.message == message);
  };
  expect("the device is away", ErrorCode::unavailable);
  expect("the role threw: something else", ErrorCode::unavailable);
  expect("the role 'any' yielded the undeclared field 'w'", ErrorCode::corrupt);
  expect("the role 'any' yielded no value in 'v'", ErrorCode::corrupt);
  const auto [outcome, text] = world.call();
  CHECK(outcome.ok);
  CHECK(text == "well ");
}

TEST_CASE("who waits for roles to be made is told which one is made") {
  TestWorld world;
  world.add_scripted([](Activation&, std::uint32_t) -> Result<void> { return {}; });
  RunnerOptions options;
  std::string told;
  options.progress = [&](std::string_view what) { told += std::string(what) + "; "; };
  world.run(one_node(), options);
  CHECK(told == "preparing any; ");
}

TEST_CASE("roles compute on as many threads as the options say") {
  for (const std::uint32_t threads : {0, 1}) {
    std::atomic<std::size_t> wrong{0};
    RunnerOptions options;
    options.threads = threads;
    const std::size_t expected = threads == 0 ? WorkerPool::shared().threads() : threads;
    World world(
        two_encoders,
        [&](Activation& a, std::uint32_t) -> Result<void> {
          if (thread_limit() != expected) ++wrong;
          a.yield("v", make_text("v"));
          return {};
        },
        options);
    const auto [outcome, text] = world.call();
    CHECK(outcome.ok);
    CHECK(text == "v ");
    CHECK(wrong == 0);
  }
}

TEST_CASE("calls from many threads each end once, with their own outputs") {
  World world(two_encoders, [](Activation& a, std::uint32_t) -> Result<void> {
    if (a.node() == "source")
      for (int i = 0; i < 3; ++i)
        a.yield("v", make_text(std::string(a.session()) + std::to_string(i)));
    else if (a.node() == "answer")
      a.yield("v", make_text(a.input("s")->text));
    else
      a.yield("v", make_text(a.input("v")->text));
    return {};
  });
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const std::string s = "session" + std::to_string(t % 3);
      for (int i = 0; i < 25; ++i) {
        const auto [outcome, text] = world.call(s);
        if (outcome.ok && text == s + "0 " + s + "1 " + s + "2 ") ++right;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 100);
}

TEST_CASE("an unknown input is refused with its name") {
  World world(two_encoders, [](Activation&, std::uint32_t) -> Result<void> { return {}; });
  const CallOutcome outcome = world.runner->call({"s", {{"y", make_text("")}}}, nullptr);
  CHECK(!outcome.ok);
  CHECK(outcome.error.message == "the workflow has no input 'y'");
}
