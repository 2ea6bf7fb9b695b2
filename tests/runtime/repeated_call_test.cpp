// Calls that begin once more when a machine that they use is lost.
#include "runtime/node/repeated_call.h"

#include <algorithm>
#include <thread>
#include <tuple>

#include "test_cluster.h"

namespace sluice {

namespace {

/// The chain of roles that may run twice; `b` is on machines 1 and 2.
std::string idempotent_chain() {
  std::string yaml = chain_yaml;
  const std::string role = "plugin: scripted }";
  for (std::size_t at = 0; (at = yaml.find(role, at)) != std::string::npos;)
    yaml.replace(at, role.size(), "plugin: scripted, idempotent: true }");
  return yaml;
}

Wiring on_two() {
  Wiring wiring;
  wiring.spread = {{0}, {1, 2}, {0}};
  return wiring;
}

Wiring on_one() {
  Wiring wiring;
  wiring.spread = {{0}, {1}, {0}};
  return wiring;
}

/// What a call gets whose machine is lost while `b` holds on there, and what of it was repeated.
struct LostAmid {
  LostAmid(const std::string& yaml, Wiring wiring) {
    HeldOnce held("b");
    TestCluster cluster({yaml}, {}, held.role(), std::move(wiring));
    std::thread caller([&] { std::tie(outcome, came) = cluster.call("held"); });
    held.reached.wait();
    cluster.kill(1);
    caller.join();
    repeated = cluster.home().status().counts.repeated;
    held.let_go.open();
  }
  CallOutcome outcome;
  std::string came;
  std::uint64_t repeated = 0;
};

CallOutcome lost(const std::string& message, CallOutcome::Lost how = CallOutcome::Lost::amid) {
  CallOutcome outcome;
  outcome.error = {ErrorCode::unavailable, message};
  outcome.lost = how;
  return outcome;
}

CallOutcome good() {
  CallOutcome outcome;
  outcome.ok = true;
  return outcome;
}

/// What the runner under a call was asked for, and how it answers.
struct Attempts {
  class Handle final : public CallHandle {
   public:
    explicit Handle(Attempts& made) : made_(made) {}
    void cancel() override { ++made_.cancels; }

   private:
    Attempts& made_;
  };

  std::shared_ptr<RepeatedCall> begin(CallRequest request, std::chrono::milliseconds limit = 30s) {
    auto call = std::make_shared<RepeatedCall>(
        std::move(request),
        CallObserver{[this](std::string_view name, const PayloadRef&) { heard += name; },
                     [this](CallOutcome outcome) { ends.push_back(std::move(outcome)); }},
        [this](CallRequest again, CallObserver told) {
          requests.push_back(std::move(again));
          observers.push_back(std::move(told));
          if (at_once) at_once(observers.size());
          return std::make_shared<Handle>(*this);
        },
        limit, repeated);
    call->begin();
    return call;
  }
  void end(std::size_t attempt, CallOutcome outcome) {
    const auto on_end = std::exchange(observers.at(attempt), {}).on_end;
    on_end(std::move(outcome));
  }

  std::atomic<std::uint64_t> repeated{0};
  std::vector<CallRequest> requests;
  std::vector<CallObserver> observers;
  std::function<void(std::size_t)> at_once;  // from within the start of an attempt
  std::vector<CallOutcome> ends;
  std::string heard;
  int cancels = 0;
};

CallRequest request(std::chrono::milliseconds deadline = 0ms) {
  return {"amy", {{"x", make_text("hello")}}, deadline, 7};
}

}  // namespace

TEST_CASE("a call whose machine is lost begins once more, with the same request") {
  Attempts made;
  const auto call = made.begin(request());
  made.end(0, lost("machine 'gpu' is lost"));
  REQUIRE(made.requests.size() == 2);
  CHECK(made.ends.empty());
  CHECK(made.requests[1].session == "amy");
  CHECK(made.requests[1].number == 7);
  REQUIRE(made.requests[1].inputs.size() == 1);
  CHECK(made.requests[1].inputs[0].second->text == "hello");
  made.end(1, good());
  REQUIRE(made.ends.size() == 1);
  CHECK(made.ends[0].ok);
  CHECK(made.ends[0].warnings ==
        std::vector<std::string>{"machine 'gpu' is lost; the call began once more"});
  CHECK(made.repeated == 1);
}

TEST_CASE("a call begins again once, not twice") {
  Attempts made;
  const auto call = made.begin(request());
  made.end(0, lost("the first"));
  made.end(1, lost("the second"));
  CHECK(made.requests.size() == 2);
  REQUIRE(made.ends.size() == 1);
  CHECK(made.ends[0].error.message == "the second");
  CHECK(made.ends[0].warnings == std::vector<std::string>{"the first; the call began once more"});
}

TEST_CASE("a call that finds no other machine ends as it did first") {
  Attempts made;
  const auto call = made.begin(request());
  made.end(0, lost("the first"));
  made.end(1, lost("nobody is there", CallOutcome::Lost::before));
  REQUIRE(made.ends.size() == 1);
  CHECK(made.ends[0].error.message == "the first");
  CHECK(made.ends[0].warnings.empty());
  CHECK(made.repeated == 0);
}

TEST_CASE(
    "a call does not begin again when it failed otherwise, was cancelled or has said something") {
  Attempts made;
  CallOutcome other = lost("a role failed", CallOutcome::Lost::no);
  SECTION("it failed otherwise") {
    const auto call = made.begin(request());
    made.end(0, other);
  }
  SECTION("its caller has cancelled it") {
    const auto call = made.begin(request());
    call->cancel();
    CHECK(made.cancels == 1);
    made.end(0, lost("a machine"));
  }
  SECTION("its caller has heard an output") {
    const auto call = made.begin(request());
    made.observers[0].on_output("out", make_text("word"));
    CHECK(made.heard == "out");
    made.end(0, lost("a machine"));
  }
  SECTION("its time is over") {
    const auto call = made.begin(request(1ms));
    const auto until = std::chrono::steady_clock::now() + 2ms;
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    made.end(0, lost("a machine"));
  }
  CHECK(made.requests.size() == 1);
  REQUIRE(made.ends.size() == 1);
  CHECK(!made.ends[0].ok);
  CHECK(made.ends[0].warnings.empty());
  CHECK(made.repeated == 0);
}

TEST_CASE("the second beginning has the time that the first has left") {
  Attempts made;
  const auto call = made.begin(request(5min), 1min);
  const auto until = std::chrono::steady_clock::now() + 2ms;
  while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  made.end(0, lost("a machine"));
  REQUIRE(made.requests.size() == 2);
  CHECK(made.requests[0].deadline == 5min);
  CHECK(made.requests[1].deadline > 0ms);
  CHECK(made.requests[1].deadline <= 1min - 2ms);
  made.end(1, good());
}

TEST_CASE("who cancels a call cancels its second beginning") {
  Attempts made;
  const auto call = made.begin(request());
  made.end(0, lost("a machine"));
  call->cancel();
  CHECK(made.cancels == 1);
  made.end(1, lost("stopped", CallOutcome::Lost::no));
  CHECK(made.ends.size() == 1);
}

TEST_CASE("an attempt that ends before its start has returned is followed by the next one") {
  Attempts made;
  made.at_once = [&](std::size_t attempts) {
    if (attempts == 1) made.end(0, lost("at once"));
  };
  const auto call = made.begin(request());
  REQUIRE(made.requests.size() == 2);
  call->cancel();
  CHECK(made.cancels == 1);  // the second's handle, and not the first's
  made.end(1, good());
  REQUIRE(made.ends.size() == 1);
  CHECK(made.ends[0].ok);
}

TEST_CASE("a call of roles that may run twice survives a machine that is lost amid it") {
  const LostAmid call(idempotent_chain(), on_two());
  CHECK(call.outcome.ok);
  CHECK(call.came == "held:x0+bx0 held:x1+bx1 held:x2+bx2 ");
  CHECK(std::ranges::count_if(call.outcome.warnings, [](const std::string& warning) {
          return warning.find("machine 'gpu', where node 'b' runs, is lost") == 0 &&
                 warning.ends_with("; the call began once more");
        }) == 1);
  CHECK(call.repeated == 1);
}

TEST_CASE("a call of which an output has come ends with the machine that is lost") {
  HeldOnce held("b");
  const auto role = held.role();
  const Script later = [&](Activation& activation, std::uint32_t replica) {
    const bool is_first = activation.node() == "b" && activation.input("x")->text == "x0";
    return is_first ? chain_role(activation, replica) : role(activation, replica);
  };
  TestCluster cluster({idempotent_chain()}, {}, later, on_two());
  Gate heard, ended;
  CallOutcome outcome;
  std::string came;
  const auto handle = cluster.home().runner(0).start(
      {"s", {{"x", make_text("x")}}, 20s}, {[&](std::string_view, const PayloadRef& value) {
                                              came += value->text + " ";
                                              heard.open();
                                            },
                                            [&](CallOutcome end) {
                                              outcome = std::move(end);
                                              ended.open();
                                            }});
  heard.wait();
  held.reached.wait();
  cluster.kill(1);
  ended.wait();
  CHECK(!outcome.ok);
  CHECK(outcome.error.message.find("machine 'gpu', where node 'b' runs, is lost") == 0);
  CHECK(came == "s:x0+bx0 ");
  CHECK(cluster.home().status().counts.repeated == 0);
  held.let_go.open();
}

TEST_CASE("a call whose role is on one machine ends with it") {
  const LostAmid call(idempotent_chain(), on_one());
  CHECK(!call.outcome.ok);
  CHECK(call.outcome.error.message.find("machine 'gpu', where node 'b' runs, is lost") == 0);
  CHECK(call.repeated == 0);
}

TEST_CASE("a workflow with one role that may not run twice repeats no call") {
  std::string yaml = idempotent_chain();
  yaml.replace(yaml.find(", idempotent: true"), std::string(", idempotent: true").size(), "");
  const LostAmid call(yaml, on_two());
  CHECK(!call.outcome.ok);
  CHECK(call.outcome.lost == CallOutcome::Lost::amid);
  CHECK(call.repeated == 0);
}

}  // namespace sluice
