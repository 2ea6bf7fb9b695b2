// Calls that begin on several machines: each home's calls and sessions are its own, and what one
// loses the others keep.
#include <algorithm>
#include <array>
#include <atomic>
#include <set>

#include "runtime/node/control.h"
#include "runtime/wire/codec.h"
#include "test_cluster.h"

namespace sluice {

namespace {

constexpr std::uint32_t arm = 3;  // a home, and where nothing else is said not the keeper

/// Machines 0 and 3 are homes; 0 keeps the list.
Wiring two_homes(std::uint32_t keeper = 0) {
  Wiring wiring;
  wiring.machines = 4;
  wiring.homes = {0, arm};
  wiring.keeper = keeper;
  return wiring;
}

std::string chain_of(const std::string& session) {
  std::string text;
  for (const char* i : {"0", "1", "2"}) text += session + ":x" + i + "+bx" + std::string(i) + " ";
  return text;
}

/// Nothing of a call runs on any machine, and none is open.
bool is_at_rest(TestCluster& cluster) {
  for (std::uint32_t machine = 0; machine < 4; ++machine) {
    const RunnerCounts counts = cluster.node(machine).status().counts;
    if (counts.activations != 0 || counts.calls != 0) return false;
  }
  return true;
}

/// Whatever a test ends with, nobody waits for the gate any more.
struct OpensAtEnd {
  Gate& gate;
  ~OpensAtEnd() { gate.open(); }
};

bool joins(TestCluster& cluster, std::uint32_t machine) {
  return cluster.node(machine).wait_for_members(10s).ok();
}

std::shared_ptr<CallHandle> start_at(TestCluster& cluster, std::uint32_t machine,
                                     Waiting& waiting) {
  return cluster.node(machine).runner(0).start(
      {TestCluster::session_of(machine), {{"x", make_text("x")}}, 20s}, waiting.observer());
}

}  // namespace

TEST_CASE("calls begin on two machines, and each gives what it gives in one process") {
  const std::uint32_t keeper = GENERATE(0U, 1U, 3U);
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role, two_homes(keeper));
  for (int i = 0; i < 5; ++i) {
    const auto [first, front] = cluster.call_at(0);
    INFO(first.error.message);
    CHECK(first.ok);
    CHECK(front == chain_of("s@front"));
    const auto [second, other] = cluster.call_at(arm);
    INFO(second.error.message);
    CHECK(second.ok);
    CHECK(other == chain_of("t@arm"));
  }
  CHECK(eventually([&] { return is_at_rest(cluster); }));
}

TEST_CASE("calls of two homes are under way at once") {
  HeldOnce held("b");
  TestCluster cluster({chain_yaml}, {0, 1, 2}, held.role(), two_homes());
  Waiting waiting;
  const auto handle = start_at(cluster, arm, waiting);
  held.reached.wait();
  CHECK(cluster.node(arm).status().counts.calls == 1);
  Waiting other;
  const auto beside = start_at(cluster, 0, other);
  CHECK(eventually([&] { return cluster.node(0).status().counts.calls == 1; }));
  held.let_go.open();
  CHECK(waiting.wait().ok);
  CHECK(other.wait().ok);
  CHECK(waiting.text == chain_of("t@arm"));
  CHECK(other.text == chain_of("s@front"));
}

TEST_CASE("a home that is lost costs its own calls, and nothing of them is left") {
  const std::uint32_t keeper = GENERATE(0U, 1U);
  HeldOnce held("b");
  std::atomic<int> ends{0};
  TestCluster cluster({chain_yaml}, {2, 1, 2}, held.role(), two_homes(keeper));
  cluster.session_ends = [&](const std::string&) { ++ends; };
  Waiting lost;
  const auto handle = start_at(cluster, arm, lost);
  held.reached.wait();
  Waiting goes_on;
  const auto beside = start_at(cluster, 0, goes_on);
  cluster.kill(arm);
  // All have heard: whoever has not would go on with its call.
  REQUIRE(eventually([&] {
    return std::ranges::all_of(std::array{0U, 1U, 2U}, [&](std::uint32_t machine) {
      const NodeStatus status = cluster.node(machine).status();
      return status.machines[arm].known.state == Roster::State::lost;
    });
  }));
  CHECK(cluster.noticed("machine 'arm' is lost"));
  held.let_go.open();
  CHECK(goes_on.wait().ok);
  CHECK(goes_on.text == chain_of("s@front"));
  CHECK(cluster.call_at(0).second == chain_of("s@front"));
  CHECK(eventually([&] {
    const auto resting = [&](std::uint32_t machine) {
      return cluster.node(machine).status().counts.activations == 0;
    };
    return resting(0) && resting(1) && resting(2);
  }));
  CHECK(cluster.node(1).lives() == 1);
  CHECK(cluster.node(2).lives() == 1);
  // It was alive: its calls end by name, and it begins others.
  cluster.network.thaw(arm);
  CHECK(!lost.wait().ok);
  CHECK(lost.outcome.error.code == ErrorCode::unavailable);
  CHECK(lost.outcome.error.message.starts_with("machine 'arm', where the call began, begins anew"));
  REQUIRE(eventually([&] { return cluster.node(arm).lives() == 2; }));
  REQUIRE(joins(cluster, arm));
  const auto [again, text] = cluster.call_at(arm);
  INFO(again.error.message);
  CHECK(again.ok);
  CHECK(text == chain_of("t@arm"));
  CHECK(eventually([&] { return is_at_rest(cluster); }));
}

TEST_CASE("what runs for a home that is lost is told to stop") {
  Gate reached;
  std::atomic<bool> told{false}, over{false}, first{true};
  TestCluster cluster(
      {chain_yaml}, {2, 1, 2},
      [&](Activation& activation, std::uint32_t replica) {
        if (activation.node() == "b" && first.exchange(false)) {
          reached.open();
          while (!activation.cancelled() && !over) std::this_thread::yield();
          told = activation.cancelled();
        }
        return chain_role(activation, replica);
      },
      two_homes());
  Waiting lost;
  const auto handle = start_at(cluster, arm, lost);
  reached.wait();
  cluster.kill(arm);
  CHECK(eventually([&] { return told.load(); }));
  over = true;
}

TEST_CASE("a home that is started again is another life, whose calls are new") {
  HeldOnce held("c");
  TestCluster cluster({chain_yaml}, {1, 1, 2}, held.role(), two_homes());
  Waiting lost;
  const auto handle = start_at(cluster, arm, lost);
  held.reached.wait();
  cluster.start(arm, 2);  // its first call has the number of the one that still runs on machine 2
  REQUIRE(joins(cluster, arm));
  CHECK(!lost.wait().ok);
  Waiting next;
  const auto again = start_at(cluster, arm, next);
  held.let_go.open();
  CHECK(next.wait().ok);
  CHECK(next.text == chain_of("t@arm"));
  CHECK(cluster.call_at(0).second == chain_of("s@front"));
  CHECK(eventually([&] { return is_at_rest(cluster); }));
}

TEST_CASE("when the keeper begins anew, homes do, and their next calls work") {
  HeldOnce held("b");
  TestCluster cluster({chain_yaml}, {2, 1, 2}, held.role(), two_homes());
  Waiting lost;
  const auto handle = start_at(cluster, arm, lost);
  held.reached.wait();
  cluster.start(0, 9);
  CHECK(!lost.wait().ok);
  CHECK(lost.outcome.error.message.starts_with("machine 'arm', where the call began, begins anew"));
  held.let_go.open();
  REQUIRE(joins(cluster, 0));
  REQUIRE(eventually([&] { return cluster.node(arm).lives() == 2; }));
  REQUIRE(joins(cluster, arm));
  CHECK(cluster.call_at(arm).second == chain_of("t@arm"));
  CHECK(cluster.call_at(0).second == chain_of("s@front"));
}

TEST_CASE("no call begins at a home that is not let in yet, and says so at once") {
  TestCluster cluster({chain_yaml}, {2, 1, 2}, chain_role, two_homes());
  cluster.network.hold(0, arm);
  cluster.network.silence(arm, 0);
  REQUIRE(eventually([&] { return cluster.node(arm).lives() == 2; }));
  const auto [early, nothing] = cluster.call_at(arm);
  CHECK(!early.ok);
  CHECK(early.error.message ==
        "no call can begin at machine 'arm' until it is let in by machine 'front', which keeps the "
        "list of who is there");
  cluster.network.let_go(0, arm);
  REQUIRE(joins(cluster, arm));
  CHECK(cluster.call_at(arm).first.ok);
}

TEST_CASE("a machine that is lost ends the calls that used it, at each home") {
  Gate reached, hold;
  std::atomic<int> at_b{0};
  TestCluster cluster(
      {chain_yaml}, {2, 1, 2},
      [&](Activation& activation, std::uint32_t replica) {
        if (activation.node() == "b" && ++at_b == 1) {
          reached.open();
          hold.wait();
        }
        return chain_role(activation, replica);
      },
      two_homes());
  Waiting front, other;
  const auto first = start_at(cluster, 0, front);
  const auto second = start_at(cluster, arm, other);
  reached.wait();
  cluster.kill(1);
  for (Waiting* waiting : {&front, &other}) {
    CHECK(!waiting->wait().ok);
    CHECK(waiting->outcome.error.message ==
          "machine 'gpu', where node 'b' runs, is lost: nothing was heard of it for 1000 ms");
  }
  hold.open();
  cluster.network.thaw(1);
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.node(1).wait_for_members(10s).ok());
  for (const std::uint32_t home : {0U, arm}) REQUIRE(joins(cluster, home));
  CHECK(cluster.call_at(0).second == chain_of("s@front"));
  CHECK(cluster.call_at(arm).second == chain_of("t@arm"));
  CHECK(eventually([&] { return is_at_rest(cluster); }));
}

TEST_CASE("a machine that is back hears no message before each home has let it in") {
  TestCluster cluster({chain_yaml}, {2, 1, 2}, chain_role, two_homes());
  CHECK(cluster.call_at(arm).first.ok);
  cluster.network.hold(arm, 1);
  cluster.start(1, 2);
  REQUIRE(eventually([&] { return cluster.node(0).status().machines[1].known.incarnation == 2; }));
  REQUIRE(joins(cluster, 0));
  CHECK(!cluster.node(1).wait_for_members(0ms).ok());
  Waiting waiting;
  const auto handle = start_at(cluster, 0, waiting);
  REQUIRE(eventually([&] { return cluster.network.is_idle(); }));
  CHECK(!waiting.ended());
  SECTION("and goes on when it has") { cluster.network.let_go(arm, 1); }
  SECTION("and goes on when the home is lost") { cluster.kill(arm); }
  CHECK(waiting.wait().ok);
  CHECK(joins(cluster, 1));
}

TEST_CASE("what roles hold of a home's sessions goes with that home, and no other's") {
  Told told;
  std::mutex mutex;
  std::multiset<std::string> ended;
  // The sessions' role is with the keeper, so that has to forget, too.
  const std::uint32_t where = GENERATE(0U, 1U);
  TestCluster cluster({remembering_yaml}, {2, where, 2}, told.script(), two_homes());
  cluster.session_ends = [&](const std::string& session) {
    told.forget(session);
    const std::lock_guard lock(mutex);
    ended.insert(session);
  };
  CHECK(cluster.call_at(0, "bart", "x").second == "x ");
  CHECK(cluster.call_at(arm, "lisa", "y").second == "y ");
  cluster.start(arm, 2);
  REQUIRE(joins(cluster, arm));
  CHECK(cluster.call_at(arm, "lisa", "z").second == "z ");
  CHECK(cluster.call_at(0, "bart", "w").second == "xw ");
  const std::lock_guard lock(mutex);
  CHECK(ended.count("lisa@arm") == 1);
  CHECK(ended.count("bart@front") == 0);
}

TEST_CASE("a machine that was away ends the sessions of a home that went meanwhile") {
  Told told;
  std::atomic<int> ends{0}, others{0};
  TestCluster cluster({remembering_yaml}, {2, 1, 2}, told.script(), two_homes());
  cluster.session_ends = [&](const std::string& session) {
    told.forget(session);
    ++(session == "lisa@arm" ? ends : others);
  };
  CHECK(cluster.call_at(arm, "lisa", "x").second == "x ");
  CHECK(cluster.call_at(0, "bart", "y").second == "y ");
  cluster.kill(1);
  REQUIRE(eventually([&] { return cluster.noticed("is lost"); }));
  cluster.kill(arm);
  REQUIRE(eventually([&] { return cluster.noticed("machine 'arm' is lost"); }));
  cluster.network.thaw(1);
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(joins(cluster, 0));
  CHECK(cluster.call_at(0, "bart", "w").second == "yw ");
  CHECK(eventually([&] { return ends == 1; }));
  CHECK(others == 0);
}

TEST_CASE("what waits for the end of one home's session holds up no other home") {
  Told told;
  Gate ending, goes_on;
  std::atomic<int> ends{0};
  const std::uint32_t keeper = GENERATE(0U, 1U, 2U);
  TestCluster cluster({remembering_yaml}, {2, 1, 2}, told.script(), two_homes(keeper));
  const OpensAtEnd opens{goes_on};
  cluster.session_ends = [&](const std::string& session) {
    if (session == "lisa@front") {
      ending.open();
      goes_on.wait();
    }
    told.forget(session);
    if (session == "bart@arm") ++ends;
  };
  REQUIRE(cluster.call_at(0, "lisa", "x").second == "x ");
  REQUIRE(cluster.call_at(arm, "bart", "y").second == "y ");
  REQUIRE(cluster.node(0).runner(0).end_session("lisa").ok());
  ending.wait();
  Waiting held;  // of a new session of that name, which waits for the end
  const auto handle =
      cluster.node(0).runner(0).start({"lisa", {{"x", make_text("z")}}, {}}, held.observer());
  REQUIRE(eventually([&] { return cluster.network.is_idle(); }));
  SECTION("neither its calls") { CHECK(cluster.call_at(arm, "bart", "w").second == "yw "); }
  SECTION("nor the end of its sessions, nor its next life") {
    cluster.start(arm, 2);
    REQUIRE(joins(cluster, arm));
    CHECK(eventually([&] { return ends == 1; }));
    CHECK(cluster.call_at(arm, "bart", "w").second == "w ");
  }
  CHECK(!held.ended());
  goes_on.open();
  CHECK(held.wait().ok);
  CHECK(held.text == "z ");
}

TEST_CASE("a home that has as many sessions as may be begins no other, and takes nobody's room") {
  Wiring wiring = two_homes(1);
  wiring.sessions = 2;
  TestCluster cluster({chain_yaml}, {2, 1, 2}, chain_role, wiring);
  for (const char* name : {"lisa", "maggie"}) REQUIRE(cluster.call_at(0, name).first.ok);
  const CallOutcome no = cluster.call_at(0, "bart").first;
  CHECK(no.error.code == ErrorCode::exhausted);
  CHECK(no.error.message ==
        "this home has 2 sessions that have not ended, as many as may be: no call begins in "
        "another one until one of them is ended");
  CHECK(cluster.call_at(0, "lisa").first.ok);
  for (const char* name : {"homer", "marge"}) CHECK(cluster.call_at(arm, name).first.ok);
  REQUIRE(cluster.node(0).runner(0).end_session("maggie").ok());
  CHECK(eventually([&] { return cluster.call_at(0, "bart").first.ok; }));
  for (const std::uint32_t machine : {1U, 2U}) CHECK(cluster.node(machine).lives() == 1);
}

TEST_CASE("who names more sessions of a home than may be is refused, and others' sessions go on") {
  Wiring wiring = two_homes(1);
  wiring.sessions = 2;
  TestCluster cluster({chain_yaml}, {2, 1, 2}, chain_role, wiring);
  const auto names = [&](std::uint64_t number) {
    Control control{.kind = Control::Kind::session, .number = number};
    control.text = "s" + std::to_string(number) + "@arm";
    control.life = cluster.network.life_of(arm);
    cluster.network.inject(control.life, 2, Channel::control, encode_control(control));
  };
  for (std::uint64_t number = 5; number < 9; ++number) names(number);
  for (const char* name : {"lisa", "maggie"}) CHECK(cluster.call_at(0, name).first.ok);
  CHECK(!cluster.noticed("sessions of one home"));
  names(9);
  CHECK(eventually([&] { return cluster.noticed("it names more than 4 sessions of one home"); }));
  CHECK(eventually([&] { return cluster.node(arm).lives() == 2; }));
  CHECK(cluster.call_at(0, "lisa").first.ok);
}

TEST_CASE("a session's name that others would not hear whole is refused") {
  TestCluster cluster({chain_yaml}, {2, 1, 2}, chain_role, two_homes());
  const std::size_t most = wire::words_max - std::string("@arm").size();
  const auto [longest, text] = cluster.call_at(arm, std::string(most, 'n'), "x");
  INFO(longest.error.message);
  CHECK(longest.ok);
  const CallOutcome no = cluster.call_at(arm, std::string(most + 1, 'n'), "x").first;
  CHECK(no.error.code == ErrorCode::invalid_argument);
  CHECK(no.error.message == "a session's name has " + std::to_string(most + 1) +
                                " bytes, at most " + std::to_string(most) + " are allowed");
  CHECK(cluster.node(arm).lives() == 1);
}

TEST_CASE("a home's own roles forget its sessions when it begins anew") {
  Told told;
  TestCluster cluster({remembering_yaml}, {0, arm, 2}, told.script(), two_homes());
  cluster.session_ends = [&](const std::string& session) { told.forget(session); };
  CHECK(cluster.call_at(arm, "lisa", "x").second == "x ");
  CHECK(cluster.call_at(0, "bart", "y").second == "y ");
  cluster.network.silence(arm, 0);
  REQUIRE(eventually([&] { return cluster.node(arm).lives() == 2; }));
  REQUIRE(joins(cluster, arm));
  REQUIRE(joins(cluster, 0));
  CHECK(cluster.call_at(arm, "lisa", "z").second == "z ");
  CHECK(cluster.call_at(0, "bart", "w").second == "yw ");
}

TEST_CASE("a session of a home's own roles that a call holds ends when that lets go, and is told") {
  Told told;
  HeldOnce held("b");
  TestCluster cluster({remembering_yaml}, {0, arm, 2}, held.role(told.script()), two_homes());
  const OpensAtEnd opens{held.let_go};
  std::atomic<int> ends{0};
  cluster.session_ends = [&](const std::string& session) {
    told.forget(session);
    ++ends;
  };
  Waiting lost;
  const auto handle =
      cluster.node(arm).runner(0).start({"lisa", {{"x", make_text("x")}}, {}}, lost.observer());
  held.reached.wait();
  cluster.network.silence(arm, 0);
  REQUIRE(eventually([&] { return cluster.node(arm).lives() == 2; }));
  REQUIRE(joins(cluster, arm));
  CHECK(!lost.wait().ok);
  CHECK(cluster.noticed("session 'lisa@arm' has a call of the life before that a role holds on"));
  const CallOutcome early = cluster.call_at(arm, "lisa", "y").first;
  CHECK(early.error.message.starts_with("session 'lisa@arm' is to end"));
  CHECK(ends == 0);
  held.let_go.open();
  CHECK(eventually([&] { return cluster.call_at(arm, "lisa", "z").second == "z "; }));
  CHECK(ends == 1);
}

TEST_CASE("who is no home says nothing that only a home says, and no home speaks for another") {
  TestCluster cluster({chain_yaml}, {2, 1, 2}, chain_role, two_homes());
  REQUIRE(cluster.call_at(0).first.ok);
  REQUIRE(cluster.call_at(arm).first.ok);
  std::uint32_t from = 1, to = 2;
  Control control;
  std::string why;
  const auto says = [&](std::uint32_t who, Control said, const std::string& words) {
    from = who;
    control = std::move(said);
    why = words;
  };
  const Origin front = cluster.network.life_of(0);
  SECTION("a welcome")
  says(1, {.kind = Control::Kind::welcome}, "it lets a machine in, and is no home");
  SECTION("the end of a session")
  says(1, {.kind = Control::Kind::session_ended, .text = "s@front"}, "what only a home may say");
  SECTION("that a session of another home is void")
  says(arm, {.kind = Control::Kind::forget, .text = "s@front"}, "no session of its own");
  SECTION("a session of a machine that is no home")
  says(1, {.kind = Control::Kind::session, .text = "s", .life = {1, 1}},
       "a machine on which no calls begin");
  SECTION("another home's session under its own name")
  says(arm, {.kind = Control::Kind::session, .number = 9, .text = "s@front", .life = {arm, 1}},
       "as no session of its home is named");
  SECTION("a session of its earlier life")
  says(arm, {.kind = Control::Kind::session, .number = 9, .text = "s@arm", .life = {arm, 0}},
       "a session of another life");
  SECTION("who is lost")
  says(arm, {.kind = Control::Kind::lost, .life = front}, "what only the keeper may say");
  SECTION("another home's session, with no role of its own")
  says(arm, {.kind = Control::Kind::session, .number = 9, .text = "s@front", .life = front},
       "a session of another home, and takes part in no call");
  SECTION("that another home's call cannot go on, with no role of its own") {
    to = 0;
    says(arm, {.kind = Control::Kind::give_up, .number = 1, .text = "no", .node = 0},
         "gives up a call, and takes part in none");
  }
  SECTION("a second welcome")
  says(arm, {.kind = Control::Kind::welcome}, "it lets a machine in twice");
  cluster.network.inject(cluster.network.life_of(from), to, Channel::control,
                         encode_control(control));
  CHECK(eventually([&] { return cluster.noticed(why); }));
  CHECK(eventually([&] { return cluster.node(from).lives() == 2; }));
  REQUIRE(joins(cluster, from));
  for (const std::uint32_t home : {0U, arm}) REQUIRE(joins(cluster, home));
  CHECK(cluster.call_at(0).second == chain_of("s@front"));
  CHECK(cluster.call_at(arm).second == chain_of("t@arm"));
}

TEST_CASE("a call that a machine begins which is no home, or for another home, is refused") {
  TestCluster cluster({chain_yaml}, {2, 1, 2}, chain_role, two_homes());
  REQUIRE(cluster.call_at(0).first.ok);
  const std::uint32_t from = GENERATE(1U, 3U);
  Message message;
  message.kind = Message::Kind::cancel;
  message.to = cluster.plan().find("c")->id;
  message.call = {7, cluster.network.life_of(from == 1 ? 1 : 0)};
  message.credit = Credit::whole();
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(0);  // the workflow
  out.number(0);  // what it has heard of the keeper's news
  REQUIRE(wire::encode(cluster.plan(), message, {}, {.machines = 4}, bytes).ok());
  cluster.network.inject(cluster.network.life_of(from), 2, Channel::message, bytes);
  const bool told = eventually([&] {
    return cluster.noticed(from == 1 ? "a call of a machine on which none begin"
                                     : "an order that only the call's home gives");
  });
  INFO(cluster.notices());
  CHECK(told);
  REQUIRE(eventually([&] { return cluster.node(from).lives() == 2; }));
  REQUIRE(cluster.node(from).wait_for_members(10s).ok());
  for (const std::uint32_t home : {0U, arm}) REQUIRE(joins(cluster, home));
  CHECK(cluster.call_at(0).first.ok);
  CHECK(cluster.call_at(arm).first.ok);
}

TEST_CASE("a call of a life of a home that has not begun is refused") {
  Told told;
  TestCluster cluster({remembering_yaml}, {2, 1, 2}, told.script(), two_homes());
  REQUIRE(cluster.call_at(arm).first.ok);
  const Plan& plan = cluster.plan();
  Pools pools;
  pools.self = {arm, 9};  // whose calls' scopes it opens
  const PlanNode& from = *plan.find("a");
  Frame* frame = pools.new_frame(from.id, from.outputs.size());
  frame->mask = 1;
  frame->values[0] = make_text("x");
  frame->iterations.assign(plan.loop_nodes, 0);
  Message* message =
      pools.new_message(Message::Kind::frame, plan.find("b")->id, {7, pools.self}, 0);
  message->frame = FrameRef(frame);
  for (const Edge& edge : plan.edges)
    if (edge.from == from.id) message->target = edge.id;
  const std::vector<CollectorId>& shares = plan.edges[message->target].shares;
  message->shares.resize(shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i)
    message->shares[i] = {ScopeRef(pools.new_scope(shares[i], message->call)), 1, 64};
  message->credit = Credit::whole();
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(0);  // the workflow
  out.number(0);  // what it has heard of the keeper's news
  REQUIRE(wire::encode(plan, *message, {}, {.machines = 4}, bytes).ok());
  pools.give(message);
  cluster.network.inject(cluster.network.life_of(2), 1, Channel::message, bytes);
  CHECK(eventually([&] {
    return cluster.noticed("a call of a life of machine 'arm' that has not begun");
  }));
  CHECK(eventually([&] { return cluster.node(2).lives() == 2; }));
  CHECK(cluster.node(1).status().counts.activations == 0);
}

}  // namespace sluice
