// Back-pressure over a cluster in one memory: a slow machine stops who feeds it, and nobody else.
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "runtime/inproc/lane_ear.h"
#include "runtime/inproc/yield_gates.h"
#include "runtime/windows.h"
#include "test_cluster.h"

namespace sluice {

namespace {

/// `a` streams, `b` takes one after the other; both on machines of their own.
std::string stream_yaml(const std::string& plugin = "scripted") {
  return R"(
sluice: 1
workflow: stream
inputs: { x: text }
calls: overlap
roles: { first: { plugin: )" +
         plugin + R"( }, second: { plugin: scripted } }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: second.b, inputs: [ { x: a.v } ], outputs: [v] }
outputs: { out: b.v }
limits: { frames: 1000000 }
)";
}

constexpr int frames = 3000;
// A frame is at least its overhead, so the window holds eight at most.
constexpr std::size_t window = 8 * frame_overhead;

/// Counts what is on its way from `a` to `b`.
struct Counting {
  std::atomic<int> yielded{0}, begun{0}, most{0}, cancelled{0};

  Result<void> run(Activation& activation) {
    if (activation.node() == "a") {
      const int count = std::stoi(activation.input("x")->text);
      for (int i = 0; i < count && !activation.cancelled(); ++i) yield(activation, i);
      cancelled += activation.cancelled() ? 1 : 0;
    } else {
      const int under_way = yielded - begun++;
      for (int before = most; under_way > before && !most.compare_exchange_weak(before, under_way);)
        ;
      activation.yield("v", activation.inputs("x")[0]);
    }
    return {};
  }
  Script role() {
    return [this](Activation& activation, std::uint32_t) { return run(activation); };
  }
  void yield(Activation& activation, int i) {
    activation.yield("v", make_text(std::to_string(i)));
    ++yielded;
  }
};

std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i) + " ";
  return text;
}

// The window, what had left when it filled, and what may be between lanes and engines.
constexpr int under_way_most = 8 + 1 + 16;

}  // namespace

TEST_CASE("a role that feeds a slow machine waits for it, and nothing is lost") {
  Counting counting;
  HeldOnce held("b");
  TestCluster cluster({stream_yaml()}, {1, 2}, held.role(counting.role()), {.window = window});
  Waiting waiting;
  const auto handle = cluster.home().runner(0).start(
      {"s", {{"x", make_text(std::to_string(frames))}}, 60s}, waiting.observer());
  held.reached.wait();
  // It goes on until its window is full, and then no further.
  CHECK(eventually([&] { return counting.yielded >= 6; }));
  held.let_go.open();
  CHECK(waiting.wait().ok);
  CHECK(waiting.text == numbers(frames));
  CHECK(counting.yielded == frames);
  CHECK(counting.most <= under_way_most);
}

TEST_CASE("a role never waits for a node that drops the oldest, however slow its machine is") {
  Counting counting;
  HeldOnce held("b");
  std::string yaml = stream_yaml();
  const std::string inputs = "inputs: [ { x: a.v } ]";
  yaml.replace(yaml.find(inputs), inputs.size(), inputs + ", on_full: drop_oldest, queue: 2");
  TestCluster cluster({yaml}, {1, 2}, held.role(counting.role()), {.window = window});
  Waiting waiting;
  const auto handle = cluster.home().runner(0).start(
      {"s", {{"x", make_text(std::to_string(frames))}}, 60s}, waiting.observer());
  held.reached.wait();
  CHECK(eventually([&] { return counting.yielded == frames; }));
  held.let_go.open();
  const CallOutcome& outcome = waiting.wait();
  CHECK(outcome.ok);
  CHECK(waiting.text.starts_with("0 "));
  CHECK(waiting.text.ends_with(" " + std::to_string(frames - 1) + " "));
  const int dropped = frames - static_cast<int>(std::ranges::count(waiting.text, ' '));
  CHECK(dropped > frames / 2);
  CHECK(outcome.warnings ==
        std::vector<std::string>{"b: inputs that waited were dropped for newer ones (on_full: "
                                 "drop_oldest, queue: 2) (" +
                                 std::to_string(dropped) + " times)"});
}

TEST_CASE("a stepped role is not stepped while the window of its node is full") {
  Counting counting;
  Gate reached, let_go;
  std::atomic<bool> first{true};
  const auto make = [&]() -> std::unique_ptr<SteppedRole> {
    auto next = std::make_shared<std::map<const Activation*, int>>();
    return std::make_unique<SteppedScript>(
        [next](Activation& activation) { return ((*next)[&activation] = 0) != 0; },
        [next, &counting](Activation& activation) {
          counting.yield(activation, (*next)[&activation]);
          return ++(*next)[&activation] == 500;
        });
  };
  TestCluster cluster({stream_yaml("stepped")}, {1, 2},
                      [&](Activation& activation, std::uint32_t) {
                        if (first.exchange(false)) {
                          reached.open();
                          let_go.wait();
                        }
                        return counting.run(activation);
                      },
                      {.window = window, .stepped = make});
  Waiting one, other;
  const auto start = [&](const std::string& session, Waiting& waiting) {
    return cluster.home().runner(0).start({session, {{"x", make_text("")}}, 60s},
                                          waiting.observer());
  };
  const auto first_call = start("s", one), second_call = start("t", other);
  reached.wait();
  CHECK(eventually([&] { return counting.yielded >= 6; }));
  let_go.open();
  CHECK(one.wait().ok);
  CHECK(other.wait().ok);
  CHECK(one.text == numbers(500));
  CHECK(other.text == numbers(500));
  CHECK(counting.most <= under_way_most);
}

TEST_CASE("a machine that stands still stops its feeder, and the rest comes when it goes on") {
  Counting counting;
  TestCluster cluster({stream_yaml()}, {1, 2},
                      [&](Activation& a, std::uint32_t) { return counting.run(a); },
                      {.window = window});
  Waiting waiting;
  const auto handle = cluster.home().runner(0).start(
      {"s", {{"x", make_text(std::to_string(frames))}}, 60s}, waiting.observer());
  CHECK(eventually([&] { return counting.begun > 10; }));
  cluster.network.freeze(2);
  // Another session's call comes to the same end, and is not refused.
  Waiting other;
  const auto second =
      cluster.home().runner(0).start({"t", {{"x", make_text("50")}}, 60s}, other.observer());
  cluster.network.thaw(2);
  CHECK(waiting.wait().ok);
  CHECK(waiting.text == numbers(frames));
  CHECK(other.wait().ok);
  CHECK(other.text == numbers(50));
  CHECK(counting.most <= under_way_most);
  CHECK(!cluster.noticed("lost"));
}

TEST_CASE("who waits for a window goes on when its call is cancelled, or its machine is lost") {
  for (const bool is_lost : {false, true}) {
    Counting counting;
    HeldOnce held("b");
    TestCluster cluster({stream_yaml()}, {1, 2}, held.role(counting.role()), {.window = window});
    Waiting waiting;
    const auto handle = cluster.home().runner(0).start(
        {"s", {{"x", make_text(std::to_string(frames))}}, 60s}, waiting.observer());
    held.reached.wait();
    CHECK(eventually([&] { return counting.yielded >= 6; }));
    if (is_lost)
      cluster.kill(2);
    else
      handle->cancel();
    CHECK(eventually([&] { return counting.cancelled == 1; }));
    CHECK(counting.yielded < frames);
    held.let_go.open();
    CHECK(!waiting.wait().ok);
    if (is_lost) {
      cluster.network.thaw(2);
      CHECK(eventually([&] { return cluster.node(2).lives() == 2; }));
      REQUIRE(cluster.home().wait_for_members(10s).ok());
    }
    const auto [again, text] = cluster.call("s", "100");
    INFO(again.error.message);
    CHECK(again.ok);
    CHECK(text == numbers(100));
  }
}

TEST_CASE("a stepped role that needs many steps to end leaves its lane when its life is over") {
  Counting counting;
  HeldOnce held("b");
  std::atomic<int> steps{0};
  const auto make = [&]() -> std::unique_ptr<SteppedRole> {
    auto left = std::make_shared<std::map<const Activation*, int>>();
    return std::make_unique<SteppedScript>(
        [left](Activation& activation) {
          (*left)[&activation] = std::stoi(activation.input("x")->text);
          return false;
        },
        [left, &counting, &steps](Activation& activation) {
          ++steps;
          counting.yield(activation, (*left)[&activation]);
          return --(*left)[&activation] == 0;
        },
        true);
  };
  TestCluster cluster({stream_yaml("stepped")}, {1, 2}, held.role(counting.role()),
                      {.window = window, .stepped = make});
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("100")}}, 60s}, waiting.observer());
  held.reached.wait();
  CHECK(eventually([&] { return counting.yielded >= 6; }));
  CHECK(steps < 100);
  cluster.start(0, 9);
  CHECK(eventually([&] { return steps == 100; }));
  held.let_go.open();
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call("s", "5").second == "5 4 3 2 1 ");
}

TEST_CASE("a role that never returns holds its own calls' frames, and no window for good") {
  Counting counting;
  HeldOnce held("b");
  std::string yaml = stream_yaml();
  const std::string one = "second: { plugin: scripted }";
  yaml.replace(yaml.find(one), one.size(), "second: { plugin: scripted, replicas: 2 }");
  TestCluster cluster({yaml}, {1, 2}, held.role(counting.role()), {.window = window});
  for (const std::string session : {"s", "t", "u", "v"}) {
    const int before = counting.yielded;
    Waiting waiting;
    const auto handle = cluster.home().runner(0).start(
        {session, {{"x", make_text(std::to_string(frames))}}, 60s}, waiting.observer());
    CHECK(eventually([&] { return counting.yielded >= before + 6; }));
    handle->cancel();
    CHECK(!waiting.wait().ok);
  }
  held.let_go.open();
}

TEST_CASE("a role that two workflows share waits for the gates of both") {
  for (int i = 0; i < 200; ++i) {
    LaneEar ear;
    YieldGates one(1), other(1);
    one.set(0, true);
    other.set(0, true);
    std::atomic<bool> looked{false};
    std::thread lane([&] {
      ear.wait([&] {
        looked = true;
        return one.is_open(0) && other.is_open(0);
      });
    });
    while (!looked) std::this_thread::yield();
    one.set(0, false);
    ear.wake();
    other.set(0, false);
    ear.wake();
    lane.join();
  }
}

TEST_CASE("a node's lanes are woken when the last frame too many has come to its engine") {
  YieldGates gates(2);
  for (int i = 0; i < 17; ++i) gates.comes(1);  // two lanes may have looked before either yields
  CHECK_FALSE(gates.is_open(1));
  CHECK(gates.is_open(0));
  CHECK_FALSE(gates.came(1));
  CHECK_FALSE(gates.is_open(1));
  CHECK(gates.came(1));
  CHECK(gates.is_open(1));
  CHECK_FALSE(gates.came(1));
}

TEST_CASE("a role that waits is not woken by what another workflow's roles send and take") {
  Counting counting;
  HeldOnce held("b");
  std::atomic<long> most{0};  // times that a yield of the slow workflow gave its core away
  const auto switches = [] {
    rusage used{};
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw;
  };
  const Script run = held.role(counting.role());
  const Script measured = [&](Activation& activation, std::uint32_t replica) -> Result<void> {
    if (activation.node() != "a" || !activation.session().starts_with("slow"))
      return run(activation, replica);
    for (int i = 0; i < 50; ++i) {
      const long before = switches();
      counting.yield(activation, i);
      most = std::max<long>(most, switches() - before);
    }
    return {};
  };
  std::string other = stream_yaml();
  other.replace(other.find("workflow: stream"), 16, "workflow: other");
  TestCluster cluster({stream_yaml(), other}, {1, 2}, measured, {.window = window});
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"slow", {{"x", make_text("")}}, 60s}, waiting.observer());
  held.reached.wait();
  CHECK(eventually([&] { return counting.yielded >= 6; }));
  Waiting quick;
  const auto beside = cluster.home().runner(1).start(
      {"quick", {{"x", make_text(std::to_string(frames))}}, 60s}, quick.observer());
  CHECK(quick.wait().ok);
  CHECK(quick.text == numbers(frames));
  held.let_go.open();
  CHECK(waiting.wait().ok);
  CHECK(waiting.text == numbers(50));
  CHECK(most < 30);
}

TEST_CASE("calls wait at home while the entry's window is full, and each still ends") {
  std::atomic<int> begun{0};
  Gate reached, let_go;
  TestCluster cluster({stream_yaml()}, {1, 2},
                      [&](Activation& activation, std::uint32_t) -> Result<void> {
                        if (activation.node() == "a") {
                          if (begun++ == 0) {
                            reached.open();
                            let_go.wait();
                          }
                        }
                        activation.yield("v", activation.inputs("x")[0]);
                        return {};
                      },
                      {.window = window});
  constexpr int calls = 200;
  std::deque<Waiting> waiting(calls);
  std::vector<std::shared_ptr<CallHandle>> handles;
  for (int i = 0; i < calls; ++i)
    handles.push_back(cluster.home().runner(0).start(
        {"s" + std::to_string(i), {{"x", make_text(std::to_string(i))}}, 60s},
        waiting[i].observer()));
  reached.wait();
  // One that waits may be cancelled, and ends at once.
  handles.back()->cancel();
  CHECK(!waiting.back().wait().ok);
  // A parcel for the session's name and one for the call, for each that has started.
  CHECK(eventually([&] { return cluster.network.is_idle(); }));
  CHECK(cluster.network.heard(0, 1) < 64);
  let_go.open();
  for (int i = 0; i + 1 < calls; ++i) {
    CHECK(waiting[i].wait().ok);
    CHECK(waiting[i].text == std::to_string(i) + " ");
  }
  CHECK(begun == calls - 1);
}

TEST_CASE("what a lost machine was owed fills nobody's window: calls begin again when it is back") {
  Counting counting;
  HeldOnce held("a");
  TestCluster cluster({stream_yaml()}, {1, 2}, held.role(counting.role()), {.window = window});
  constexpr int calls = 50;
  std::deque<Waiting> waiting(calls);
  std::vector<std::shared_ptr<CallHandle>> handles;
  for (int i = 0; i < calls; ++i)
    handles.push_back(cluster.home().runner(0).start(
        {"s" + std::to_string(i), {{"x", make_text("1")}}, 60s}, waiting[i].observer()));
  held.reached.wait();
  CHECK(eventually([&] { return cluster.network.is_idle(); }));  // the entry's window is full
  cluster.kill(1);
  held.let_go.open();
  for (Waiting& one : waiting) CHECK(!one.wait().ok);
  cluster.network.thaw(1);
  CHECK(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  const auto [again, text] = cluster.call("t", "100");
  INFO(again.error.message);
  CHECK(again.ok);
  CHECK(text == numbers(100));
}

TEST_CASE("with windows of one frame joins, loops and shared lanes come to the same") {
  for (const auto& placed :
       std::vector<std::vector<std::uint32_t>>{{0, 1, 2}, {1, 2, 0}, {2, 1, 2}}) {
    TestCluster cluster({chain_yaml}, placed, chain_role, {.window = 1});
    for (int i = 0; i < 10; ++i) {
      const auto [outcome, text] = cluster.call("lisa", "x");
      INFO(outcome.error.message);
      CHECK(outcome.ok);
      CHECK(text == "lisa:x0+bx0 lisa:x1+bx1 lisa:x2+bx2 ");
    }
  }
  // `a` and `c` share a lane: it streams over `b` to itself.
  constexpr const char* there_and_back = R"(
sluice: 1
workflow: there_and_back
inputs: { x: text }
roles: { left: { plugin: scripted }, right: { plugin: scripted } }
nodes:
  a: { run: left.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: right.b, inputs: [ { x: a.v } ], outputs: [v] }
  c: { run: left.c, inputs: [ { x: b.v } ], outputs: [v] }
  d: { run: right.d, inputs: [ { x: c.v } ], outputs: [v] }
outputs: { out: d.v }
)";
  TestCluster cluster({there_and_back}, {1, 2},
                      [](Activation& activation, std::uint32_t) -> Result<void> {
                        const int times = activation.node() == "a" ? 300 : 1;
                        for (int i = 0; i < times; ++i)
                          activation.yield("v", times == 1 ? activation.inputs("x")[0]
                                                           : make_text(std::to_string(i)));
                        return {};
                      },
                      {.window = 1});
  const auto [outcome, text] = cluster.call("s", "x");
  INFO(outcome.error.message);
  CHECK(outcome.ok);
  CHECK(text == numbers(300));
}

}  // namespace sluice
