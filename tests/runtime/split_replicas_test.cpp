// A role of which each replica gets every set of inputs, on several machines of a cluster in one
// process: what one process gives, and machines that are lost, slow or wrong.
#include <algorithm>
#include <thread>

#include "runtime/node/control.h"
#include "runtime/replicas/asked.h"
#include "runtime/replicas/parcel.h"
#include "test_cluster.h"

namespace sluice {

namespace {

/// Three replicas answer each of two questions; `g` joins what came of one.
std::string judged(const std::string& plugin = "typed", const std::string& more = "") {
  return R"(
sluice: 1
workflow: judged
inputs: { x: text }
roles:
  first: { plugin: scripted }
  judge: { plugin: )" +
         plugin + R"(, replicas: 3, balance: broadcast }
  last: { plugin: scripted }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  ask: { run: judge.ask, inputs: [ { x: a.v } ])" +
         (plugin == "typed" ? "" : ", outputs: [v]") + more + R"( }
  g: { run: last.g, inputs: [ { v: ask.v, x: a.v } ], outputs: [v] }
outputs: { each: ask.v, all: g.v }
)";
}

Result<void> judge(Activation& activation, std::uint32_t replica) {
  if (activation.node() == "a")
    for (const char* end : {"p", "q"})
      activation.yield("v", make_text(activation.input("x")->text + end));
  if (activation.node() == "ask") {
    activation.warn("judged by " + std::to_string(replica));
    for (int i = 0; i < 2; ++i)
      activation.yield("v", make_text(activation.input("x")->text + std::to_string(replica) +
                                      std::to_string(i) + std::string(activation.session())));
  }
  if (activation.node() == "g") {
    std::string all;
    for (const PayloadRef& value : activation.inputs("v")) all += value->text;
    activation.yield("v", make_text(all));
  }
  return {};
}

/// Replicas 0 and 1 on machine 1, which has the engine; replica 2 on machine 2.
Wiring over(RoleMachines spread = {{0}, {1, 2}, {0}}) {
  Wiring wiring;
  wiring.spread = std::move(spread);
  return wiring;
}

/// A judge of which one replica holds on once, and then looks whether somebody still wants it.
struct HeldReplica {
  explicit HeldReplica(std::uint32_t which) : replica(which) {}
  Script role(Script then = judge) {
    return [this, then = std::move(then)](Activation& activation,
                                          std::uint32_t which) -> Result<void> {
      if (activation.node() == "ask" && which == replica && first.exchange(false)) {
        reached.open();
        let_go.wait();
        was_cancelled = activation.cancelled();
        returned.open();
      }
      return then(activation, which);
    };
  }
  const std::uint32_t replica;
  Gate reached, let_go, returned;
  std::atomic<bool> first{true}, was_cancelled{false};
};

/// At the end of a test, whatever its end.
struct Opens {
  Gate& gate;
  ~Opens() { gate.open(); }
};

std::vector<std::string> sorted(std::vector<std::string> words) {
  std::ranges::sort(words);
  return words;
}

constexpr const char* lost_words =
    "machine 'disk', where replica 2 of node 'ask' runs, is lost: nothing was heard of it";

/// What came of each output; between two of them there is no order.
std::pair<CallOutcome, std::map<std::string, std::string>> call_at(TestCluster& cluster,
                                                                   std::uint32_t home = 0) {
  std::map<std::string, std::string> came;
  CallOutcome outcome = cluster.node(home).runner(0).call(
      {"s", {{"x", make_text("x")}}, 20s}, [&](std::string_view output, const PayloadRef& value) {
        came[std::string(output)] += value->text + " ";
      });
  return {std::move(outcome), came};
}

std::size_t activations(TestCluster& cluster, std::uint32_t machine) {
  return cluster.node(machine).status().counts.activations;
}

}  // namespace

TEST_CASE("replicas over several machines give what they give in one process") {
  std::pair<CallOutcome, std::map<std::string, std::string>> want;
  {
    TestCluster alone({judged()}, {0, 0, 0}, judge);
    want = call_at(alone);
    REQUIRE(want.first.ok);
    REQUIRE(want.first.warnings.size() == 3);
  }
  for (const RoleMachines& spread : std::vector<RoleMachines>{{{0}, {1, 2}, {0}},
                                                              {{0}, {2, 1}, {0}},
                                                              {{1}, {0, 1, 2}, {2}},
                                                              {{2}, {1, 0}, {1}},
                                                              {{1, 2}, {2, 0}, {0, 1}}}) {
    for (const std::uint32_t home : {0U, 2U}) {
      Wiring wiring = over(spread);
      wiring.homes = {home};
      TestCluster cluster({judged()}, {}, judge, std::move(wiring));
      // Each replica once, wherever it is.
      CHECK(static_cast<std::size_t>(cluster.made) == 3 + spread[0].size() + spread[2].size());
      for (int i = 0; i < 3; ++i) {
        const auto [outcome, came] = call_at(cluster, home);
        INFO(outcome.error.message);
        CHECK(outcome.ok);
        CHECK(came == want.second);
        CHECK(sorted(outcome.warnings) == sorted(want.first.warnings));
      }
      for (std::uint32_t machine = 0; machine < 3; ++machine)
        CHECK(eventually([&] { return activations(cluster, machine) == 0; }));
    }
  }
}

TEST_CASE("a replica elsewhere that fails is told as in one process") {
  const auto role = [](Activation& activation, std::uint32_t replica) -> Result<void> {
    Result<void> done = judge(activation, replica);
    if (activation.node() == "ask" && replica == 2)
      return Error{ErrorCode::corrupt, "replica 2 cannot judge"};
    return done;
  };
  for (const std::string more : {"", ", on_error: skip"}) {
    TestCluster alone({judged("scripted", more)}, {0, 0, 0}, role);
    TestCluster cluster({judged("scripted", more)}, {}, role, over());
    const auto want = call_at(alone);
    const auto got = call_at(cluster);
    CHECK(got.first.ok == want.first.ok);
    CHECK(got.first.error.message == want.first.error.message);
    CHECK(got.first.node == want.first.node);
    if (want.first.ok) CHECK(got.second == want.second);
    if (want.first.ok) CHECK(sorted(got.first.warnings) == sorted(want.first.warnings));
  }
}

TEST_CASE("what a role elsewhere yields against its declaration is its error, as in one process") {
  const auto role = [](Activation& activation, std::uint32_t replica) -> Result<void> {
    if (activation.node() != "ask" || replica != 2) return judge(activation, replica);
    auto* const number = new Payload;
    number->type = ValueType::number;
    activation.yield("v", PayloadRef(number));
    return {};
  };
  TestCluster alone({judged()}, {0, 0, 0}, role);
  TestCluster cluster({judged()}, {}, role, over());
  const CallOutcome want = alone.call().first, got = cluster.call().first;
  CHECK(!want.ok);
  CHECK(got.error.message == want.error.message);
  CHECK_FALSE(cluster.noticed("is refused"));
}

TEST_CASE("a machine that is lost ends its replicas' activations by name, and nothing else") {
  HeldReplica held(2);
  const bool skips = GENERATE(false, true);
  TestCluster cluster({judged("typed", skips ? ", on_error: skip" : "")}, {}, held.role(), over());
  std::pair<CallOutcome, std::string> first;
  std::thread caller([&] { first = cluster.call("held"); });
  held.reached.wait();
  cluster.kill(2);
  caller.join();
  for (int round = 0; round < 2; ++round) {  // amid it, and while the machine is away
    INFO(first.first.error.message);
    CHECK(first.first.ok == skips);
    if (skips) {
      CHECK(std::ranges::any_of(first.first.warnings, [](const std::string& warning) {
        return warning.find(lost_words) != std::string::npos;
      }));
      CHECK(first.second.find("xp00") != std::string::npos);
      CHECK(first.second.find("xp20") == std::string::npos);
    } else {
      CHECK(first.first.error.message.starts_with(lost_words));
      CHECK(first.first.node == "ask");
    }
    first = cluster.call("held");
  }
  held.let_go.open();
  cluster.network.forget(2);
  cluster.start(2, 2);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  const auto [outcome, came] = cluster.call();
  CHECK(outcome.ok);
  CHECK(came.find("xp20") != std::string::npos);
  for (std::uint32_t machine = 0; machine < 3; ++machine)
    CHECK(eventually([&] { return activations(cluster, machine) == 0; }));
}

TEST_CASE("a machine that stands still drops what it ran when it goes on, and takes part again") {
  HeldReplica held(2);
  TestCluster cluster({judged()}, {}, held.role(), over());
  std::pair<CallOutcome, std::string> first;
  std::thread caller([&] { first = cluster.call("held"); });
  held.reached.wait();
  cluster.kill(2);
  caller.join();
  CHECK(!first.first.ok);
  cluster.network.thaw(2);  // it hears that it is lost, and begins another life
  REQUIRE(eventually([&] { return cluster.node(2).lives() == 2; }));
  held.let_go.open();
  held.returned.wait();
  CHECK(held.was_cancelled);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(eventually([&] { return cluster.call().first.ok; }));
  CHECK_FALSE(cluster.noticed("is refused"));
}

TEST_CASE("the owner of a node that is lost takes what runs for it elsewhere along") {
  HeldReplica held(2);
  const bool begins_anew = GENERATE(false, true);
  TestCluster cluster({judged()}, {}, held.role(), over());
  std::pair<CallOutcome, std::string> first;
  std::thread caller([&] { first = cluster.call("held"); });
  held.reached.wait();
  if (begins_anew) {  // a later life speaks, before anybody has said that the first is over
    cluster.network.forget(1);
    cluster.start(1, 2);
  } else {
    cluster.kill(1);
  }
  caller.join();
  CHECK(!first.first.ok);
  CHECK(first.first.error.message.find("machine 'gpu', where node 'ask' runs, is lost") == 0);
  REQUIRE(eventually([&] { return cluster.noticed("machine 'gpu' is lost"); }));
  // Behind that, the other machine has heard of it.
  REQUIRE(eventually([&] {
    return cluster.node(2).status().machines[1].known.state != Roster::State::there ||
           cluster.node(2).status().machines[1].known.incarnation == 2;
  }));
  held.let_go.open();
  held.returned.wait();
  CHECK(held.was_cancelled);
  CHECK(eventually([&] { return activations(cluster, 2) == 0; }));
  if (!begins_anew) {
    cluster.network.forget(1);
    cluster.start(1, 2);
  }
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(eventually([&] { return cluster.call().first.ok; }));
}

TEST_CASE("a call that is cancelled is cancelled on replicas elsewhere") {
  Gate reached;
  std::atomic<bool> saw{false};
  const auto role = [&](Activation& activation, std::uint32_t replica) -> Result<void> {
    if (activation.node() == "ask" && replica == 2) {
      reached.open();
      saw = eventually([&] { return activation.cancelled(); });
    }
    return judge(activation, replica);
  };
  TestCluster cluster({judged()}, {}, role, over());
  Waiting call;
  auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, 20s}, call.observer());
  reached.wait();
  handle->cancel();
  CHECK(!call.wait().ok);
  CHECK(eventually([&] { return activations(cluster, 2) == 0 && activations(cluster, 1) == 0; }));
  CHECK(saw);
}

TEST_CASE("a slow reader stops a replica elsewhere, which yields a bounded number of bytes") {
  constexpr std::size_t size = std::size_t{1} << 20U;
  constexpr int frames = 100;
  std::atomic<int> yields{0};
  Gate slow;
  const auto role = [&](Activation& activation, std::uint32_t replica) -> Result<void> {
    if (activation.session() == "t") return chain_role(activation, replica);
    if (activation.node() == "a") activation.yield("v", activation.inputs("x")[0]);
    if (activation.node() == "ask")
      for (int i = 0; replica == 2 && i < frames; ++i) {
        activation.yield("v", make_text(std::string(size, 'x')));
        ++yields;
      }
    if (activation.node() == "late") slow.wait();
    if (activation.node() == "late") activation.yield("v", make_text("b"));
    return {};
  };
  // `late` reads frame by frame on another machine than the engine of `ask`.
  const std::string yaml = R"(
sluice: 1
workflow: slow
inputs: { x: text }
roles:
  first: { plugin: scripted }
  judge: { plugin: scripted, replicas: 3, balance: broadcast }
  last: { plugin: scripted }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  ask: { run: judge.ask, inputs: [ { x: a.v } ], outputs: [v] }
  late: { run: last.late, inputs: [ { x: ask.v } ], outputs: [v] }
outputs: { out: late.v }
)";
  Wiring wiring = over();
  wiring.window = size;
  TestCluster cluster({yaml, chain_yaml}, {}, role, std::move(wiring));
  std::pair<CallOutcome, std::string> got;
  const Opens opens{slow};
  std::thread caller([&] { got = cluster.call("s", "x"); });
  CHECK(eventually([&] { return yields >= 5; }));
  // Time for whoever is not held up: calls of another workflow that the same links carry.
  for (int i = 0; i < 100; ++i) CHECK(cluster.call("t", "x", 1).first.ok);
  REQUIRE(eventually([&] { return cluster.network.is_idle(); }));
  // The window of the replica and of the edge, and one frame at each place on the way.
  CHECK(yields <= 4 + 1 + 6);
  slow.open();
  caller.join();
  CHECK(got.first.ok);
  CHECK(std::ranges::count(got.second, 'b') == frames);
}

TEST_CASE("inputs wait at home while a replica elsewhere has as many bytes as may be") {
  HeldReplica held(2);
  const Script role = held.role([](Activation& activation, std::uint32_t replica) {
    if (activation.node() == "a") return judge(activation, replica);
    activation.yield("v", make_text("short"));
    return Result<void>();
  });
  TestCluster cluster({judged()}, {}, role, over());
  const Opens opens{held.let_go};
  std::vector<Waiting> calls(2);
  for (std::size_t i = 0; i < calls.size(); ++i)
    (void)cluster.home().runner(0).start(
        {"s" + std::to_string(i), {{"x", make_text(std::string(std::size_t{3} << 20U, 'x'))}}, 20s},
        calls[i].observer());
  held.reached.wait();
  // All that is to come for the first replicas has come and gone.
  REQUIRE(eventually([&] { return cluster.network.is_idle() && activations(cluster, 2) > 0; }));
  for (int i = 0; i < 100; ++i) {
    REQUIRE(eventually([&] { return cluster.network.is_idle(); }));
    CHECK(activations(cluster, 2) == 1);  // two do not fit
  }
  held.let_go.open();
  for (Waiting& call : calls) {
    call.wait();
    INFO(call.outcome.error.message);
    CHECK(call.outcome.ok);
  }
  CHECK_FALSE(cluster.noticed("is refused"));
}

TEST_CASE("a stepped role elsewhere advances several activations at once") {
  Wiring wiring = over();
  std::atomic<int> most{0};
  std::atomic<int> admitted{0};
  wiring.stepped = [&] {
    auto inside = std::make_shared<int>(0);
    return std::make_unique<SteppedScript>(
        [&, inside](Activation&) {
          ++admitted;
          most = std::max(most.load(), ++*inside);
          return true;
        },
        [&, inside](Activation& activation) {
          // Until all questions of both calls are on all three replicas.
          if (admitted < 12 && !activation.cancelled()) return false;
          activation.yield("v", make_text(activation.input("x")->text));
          --*inside;
          return true;
        });
  };
  TestCluster cluster({judged("stepped")}, {}, judge, std::move(wiring));
  std::vector<Waiting> calls(2);
  for (std::size_t i = 0; i < calls.size(); ++i)
    (void)cluster.home().runner(0).start({"s" + std::to_string(i), {{"x", make_text("x")}}, 20s},
                                         calls[i].observer());
  for (Waiting& call : calls) {
    CHECK(call.wait().ok);
    CHECK(call.text.size() == std::string("xp xp xp xq xq xq xpxpxp xqxqxq ").size());
  }
  CHECK(most == 4);
}

TEST_CASE("what nobody may say of a replica elsewhere ends the life that says it") {
  HeldReplica held(2);
  TestCluster cluster({judged()}, {}, held.role(), over());
  const Opens opens{held.let_go};
  Waiting call;
  (void)cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, 20s}, call.observer());
  held.reached.wait();  // number 1 runs on machine 2
  const NodeId ask = cluster.plan().find("ask")->id, a = cluster.plan().find("a")->id;
  auto* const number = new Payload;
  number->type = ValueType::number;
  number->number = 7;
  const PayloadRef wrong(number), text = make_text("x");
  std::uint32_t from = 1, to = 2;
  ReplicaParcel parcel{.activation = 1};
  std::string why;
  wire::Lending nothing;
  const auto owner_says = [&](std::uint64_t activation, decltype(parcel.what) what,
                              const std::string& words) {
    parcel.activation = activation;
    parcel.what = std::move(what);
    why = words;
  };
  const auto runner_says = [&](std::uint64_t activation, decltype(parcel.what) what,
                               const std::string& words) {
    from = 2;
    to = 1;
    owner_says(activation, std::move(what), words);
  };
  SECTION("an activation twice")
  owner_says(1, ReplicaBegin{.node = ask, .replica = 2, .inputs = {{0, text}}}, "twice");
  SECTION("a replica that is not there")
  owner_says(99, ReplicaBegin{.node = ask, .replica = 1, .inputs = {{0, text}}},
             "on replica 1 of node 'ask', which is not here");
  SECTION("a replica that nobody has")
  owner_says(99, ReplicaBegin{.node = ask, .replica = 3, .inputs = {{0, text}}}, "which is not");
  SECTION("a node that is on one machine")
  owner_says(99, ReplicaBegin{.node = a, .replica = 0, .inputs = {{0, text}}},
             "a node whose replicas are not on several machines");
  SECTION("a node that is none")
  owner_says(99, ReplicaBegin{.node = 99, .replica = 0, .inputs = {{0, text}}},
             "a node whose replicas are not on several machines");
  SECTION("a group that is none")
  owner_says(99, ReplicaBegin{.node = ask, .replica = 2, .group = 1, .inputs = {{0, text}}},
             "a group that is not there");
  SECTION("an input of the wrong type")
  owner_says(99, ReplicaBegin{.node = ask, .replica = 2, .inputs = {{0, wrong}}},
             "as an input of node 'ask' it gives");
  SECTION("an input of no field")
  owner_says(99, ReplicaBegin{.node = ask, .replica = 2, .inputs = {{1, text}}},
             "no such place in their group");
  SECTION("two values of an input that takes one")
  owner_says(99, ReplicaBegin{.node = ask, .replica = 2, .inputs = {{0, text}, {0, text}}},
             "none or two values");
  SECTION("no value of an input that takes one")
  owner_says(99, ReplicaBegin{.node = ask, .replica = 2}, "none or two values");
  SECTION("more inputs than may wait")
  owner_says(
      99,
      ReplicaBegin{
          .node = ask, .replica = 2, .inputs = {{0, make_text(std::string(replica_window, 'x'))}}},
      "more inputs at once than may wait");
  SECTION("an order about what was not asked for")
  owner_says(99, ReplicaCancel{}, "orders about an activation that it did not ask for");
  SECTION("more bytes back than were sent")
  owner_says(1, ReplicaTaken{1}, "more bytes of an activation than it was sent");
  SECTION("an activation by who has not the engine") {
    from = 0;
    owner_says(1, ReplicaBegin{.node = ask, .replica = 2, .inputs = {{0, text}}},
               "whose engine it does not have");
  }
  SECTION("a frame of what was not asked for")
  runner_says(99, ReplicaYielded{{{0, text}}, {}}, "that it was not asked for");
  SECTION("the end of what another machine was asked for") {
    from = 0;
    to = 1;
    owner_says(1, ReplicaEnded{}, "that it was not asked for");
  }
  SECTION("a frame of the wrong type")
  runner_says(1, ReplicaYielded{{{0, wrong}}, {}}, "a replica of node 'ask' yielded");
  SECTION("a frame of an output that is none")
  runner_says(1, ReplicaYielded{{{1, text}}, {}}, "an output that node 'ask' does not have");
  SECTION("an output twice")
  runner_says(1, ReplicaYielded{{{0, text}, {0, text}}, {}}, "'v' of node 'ask' twice");
  SECTION("an end twice") {
    cluster.network.inject(
        cluster.network.life_of(2), 1, Channel::control,
        encode_replica({.activation = 1, .what = ReplicaEnded{}}, nothing).value());
    runner_says(1, ReplicaEnded{}, "an activation that");
  }
  SECTION("a frame behind the end") {
    cluster.network.inject(
        cluster.network.life_of(2), 1, Channel::control,
        encode_replica({.activation = 1, .what = ReplicaEnded{}}, nothing).value());
    runner_says(1, ReplicaYielded{{{0, text}}, {}}, "an activation that");
  }
  REQUIRE(!why.empty());
  cluster.network.inject(cluster.network.life_of(from), to, Channel::control,
                         encode_replica(parcel, nothing).value());
  CHECK(eventually([&] { return cluster.noticed(why); }));
  held.let_go.open();
  (void)call.wait();  // where both were in time it may have ended well
  REQUIRE(eventually([&] {
    for (std::uint32_t machine = 0; machine < 3; ++machine)
      if (!cluster.node(machine).status().let_in) return false;
    return cluster.call().first.ok;
  }));
  for (std::uint32_t machine = 0; machine < 3; ++machine)
    CHECK(eventually([&] { return activations(cluster, machine) == 0; }));
}

TEST_CASE("bytes that are no parcel of a replica end the life that sends them") {
  TestCluster cluster({judged()}, {}, judge, over());
  REQUIRE(cluster.call().first.ok);
  wire::Bytes bytes = encode_control({.kind = Control::Kind::replica});
  bytes.push_back(std::byte{9});
  cluster.network.inject(cluster.network.life_of(1), 2, Channel::control, bytes);
  CHECK(eventually([&] { return cluster.noticed("what is said of an activation is 9"); }));
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  CHECK(eventually([&] { return cluster.call().first.ok; }));
}

}  // namespace sluice
