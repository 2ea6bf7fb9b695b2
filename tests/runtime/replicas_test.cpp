// A role on several machines of a cluster in one process.
#include <algorithm>
#include <thread>

#include "test_cluster.h"

namespace sluice {

namespace {

Wiring on_two() {
  Wiring wiring;
  wiring.spread = {{0}, {1, 2}, {0}};
  return wiring;
}

/// `b` keeps what its session has said, on the machine that the session has got.
constexpr const char* staying_yaml = R"(
sluice: 1
workflow: staying
inputs: { x: text }
global_params: { said: { kind: memory } }
roles:
  first: { plugin: scripted }
  second: { plugin: remembering, global_params: [said], balance: session }
  third: { plugin: scripted }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: second.b, inputs: [ { x: a.v } ], outputs: [v] }
  c: { run: third.c, inputs: [ { x: b.v } ], outputs: [v] }
outputs: { out: c.v }
)";

bool has(const std::vector<std::string>& warnings, const std::string& words) {
  return std::ranges::any_of(warnings, [&](const std::string& warning) {
    return warning.find(words) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("a call finds one machine of each role, and gives what it gives in one process") {
  TestCluster cluster({chain_yaml}, {}, chain_role, on_two());
  for (int i = 0; i < 4; ++i) {
    const auto [outcome, came] = cluster.call();
    CHECK(outcome.ok);
    CHECK(came == "s:x0+bx0 s:x1+bx1 s:x2+bx2 ");
  }
}

TEST_CASE(
    "calls on the machine that is lost end with its name, and others go to the one there is") {
  HeldOnce held("b");
  TestCluster cluster({chain_yaml}, {}, held.role(), on_two());
  std::pair<CallOutcome, std::string> first;
  std::thread caller([&] { first = cluster.call("held"); });
  held.reached.wait();
  // In turn: on the other machine.
  CHECK(cluster.call("beside").first.ok);
  cluster.kill(1);
  caller.join();
  CHECK(!first.first.ok);
  CHECK(first.first.error.message.find("machine 'gpu', where node 'b' runs, is lost") == 0);
  for (int i = 0; i < 4; ++i) CHECK(cluster.call().first.ok);
  held.let_go.open();
  cluster.network.forget(1);
  cluster.start(1, 2);
  REQUIRE(eventually([&] { return cluster.home().status().machines[1].known.incarnation == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  cluster.kill(2);
  REQUIRE(eventually([&] { return cluster.noticed("machine 'disk' is lost"); }));
  for (int i = 0; i < 4; ++i) CHECK(cluster.call().first.ok);
  cluster.kill(1);
  REQUIRE(eventually([&] { return !cluster.call().first.ok; }));
  const auto [outcome, came] = cluster.call();
  CHECK(outcome.node == "b");
  CHECK(outcome.error.message.find("is lost") != std::string::npos);
}

TEST_CASE("a call goes on while a machine that it does not use is lost") {
  HeldOnce held("b");
  TestCluster cluster({chain_yaml}, {}, held.role(), on_two());
  std::pair<CallOutcome, std::string> first;
  std::thread caller([&] { first = cluster.call("held"); });
  held.reached.wait();
  cluster.kill(2);
  REQUIRE(eventually([&] { return cluster.noticed("machine 'disk' is lost"); }));
  held.let_go.open();
  caller.join();
  CHECK(first.first.ok);
  CHECK(first.second == "held:x0+bx0 held:x1+bx1 held:x2+bx2 ");
}

TEST_CASE("a session whose machine is lost moves, and what that machine kept of it is void") {
  Told told;
  std::mutex mutex;
  std::vector<std::string> ended;
  Wiring wiring = on_two();
  TestCluster cluster({staying_yaml}, {}, told.script(), std::move(wiring));
  cluster.session_ends = [&](const std::string& session) {
    const std::lock_guard lock(mutex);
    ended.push_back(session);
    told.forget(session);
  };
  const auto count = [&](const std::string& session) {
    const std::lock_guard lock(mutex);
    return std::ranges::count(ended, session);
  };
  CHECK(cluster.call("s", "one ").second == "one  ");  // on machine 1
  CHECK(cluster.call("t", "uno ").second == "uno  ");  // on machine 2
  CHECK(cluster.call("s", "two ").second == "one two  ");
  const std::uint32_t lives = cluster.node(1).status().lives;
  cluster.kill(1);
  REQUIRE(eventually([&] { return cluster.noticed("machine 'gpu' is lost"); }));
  const std::string words =
      "session 's' was on machine 'gpu', which is lost: it begins anew on machine 'disk'";
  const auto moved = cluster.call("s", "three ");
  CHECK(moved.first.ok);
  CHECK(has(moved.first.warnings, words));
  CHECK(cluster.noticed(words));
  CHECK(!has(cluster.call("s", "four ").first.warnings, "session"));
  CHECK(cluster.call("t", "due ").second == "uno due  ");
  CHECK(count("s") == 0);
  cluster.network.thaw(1);  // it goes on, hears that it is lost, and begins another life
  REQUIRE(eventually([&] { return cluster.node(1).status().lives > lives; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  REQUIRE(eventually([&] { return count("s") == 1; }));
  CHECK(count("t") == 0);
  CHECK(cluster.call("t", "tre ").second == "uno due tre  ");
}

TEST_CASE("a session that ends while a machine is away leaves nothing there") {
  Told told;
  std::atomic<int> ended{0};
  TestCluster cluster({staying_yaml}, {0, 1, 0}, told.script());
  cluster.session_ends = [&](const std::string&) { ++ended; };
  CHECK(cluster.call("s", "one ").first.ok);
  cluster.kill(1);
  REQUIRE(eventually([&] { return cluster.noticed("machine 'gpu' is lost"); }));
  const std::uint32_t lives = cluster.node(1).status().lives;
  CHECK(cluster.home().runner(0).end_session("s").ok());
  const int before = ended;  // at home
  cluster.network.thaw(1);
  REQUIRE(eventually([&] { return cluster.node(1).status().lives > lives; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(eventually([&] { return ended == before + 1; }));
}

}  // namespace sluice
