// A node of a `balance: broadcast` role on lanes: its replicas compute beside each other.
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "world.h"

using namespace sluice;
TEST_CASE("a set of inputs runs on each replica at the same time, and comes out in their order") {
  TestWorld world;
  std::atomic<int> missing = 0;
  world.add_scripted([&](Activation& a, std::uint32_t replica) -> Result<void> {
    if (a.node() == "gather") {
      std::string all;
      for (const PayloadRef& value : a.inputs("v")) all += value->text;
      a.yield("v", make_text(all));
      return {};
    }
    --missing;
    while (missing > 0 && !a.cancelled()) std::this_thread::yield();
    if (missing > 0) return Error{ErrorCode::cancelled, "alone"};
    a.yield("v", make_text(a.input("x")->text + std::to_string(replica)));
    return {};
  });
  world.run(R"(
sluice: 1
workflow: test
inputs: { x: text }
roles:
  judge: { plugin: scripted, replicas: 3, balance: broadcast }
  any: { plugin: scripted }
nodes:
  ask: { run: judge.ask, inputs: [ { x: inputs.x } ], outputs: [v] }
  gather: { run: any.gather, inputs: [ { v: ask.v, x: inputs.x } ], outputs: [v] }
outputs: { each: ask.v, all: gather.v }
limits: { deadline: 20s }
)");
  for (int round = 0; round < 20; ++round) {
    missing = 3;
    const auto [outcome, came] = world.call();
    CHECK(outcome.ok);
    CHECK(came == "x0 x1 x2 x0x1x2 ");
  }
}
