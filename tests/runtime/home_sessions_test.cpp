// Sessions that two homes call alike: one of them has it, and the other says where it is.
#include <algorithm>
#include <string>
#include <tuple>

#include "runtime/node/control.h"
#include "test_cluster.h"

namespace sluice {

namespace {

constexpr std::uint32_t arm = 3;  // a home

Wiring two_homes(std::uint32_t keeper) {
  Wiring wiring;
  wiring.machines = 4;
  wiring.homes = {0, arm};
  wiring.keeper = keeper;
  return wiring;
}

std::string warnings_of(const CallOutcome& outcome) {
  std::string all;
  for (const std::string& warning : outcome.warnings) all += warning + "\n";
  return all;
}

/// The same, by a role of which the workflow says that its sessions stay where they are.
std::string remembering_by_session() {
  std::string yaml = remembering_yaml;
  const std::string role = "global_params: [said]";
  return yaml.replace(yaml.find(role), role.size(), role + ", balance: session");
}

constexpr const char* at_front = "session 'lisa' is at machine 'front': call it there";

}  // namespace

TEST_CASE("a session is at the home that calls it first, and free when it has ended") {
  const std::uint32_t keeper = GENERATE(0U, 1U, 3U);
  Told told;
  TestCluster cluster({remembering_yaml}, {2, 1, 2}, told.script(), two_homes(keeper));
  cluster.session_ends = [&](const std::string& session) { told.forget(session); };
  CHECK(cluster.call_at(0, "lisa", "x").second == "x ");
  const CallOutcome no = cluster.call_at(arm, "lisa", "y").first;
  CHECK(no.error.code == ErrorCode::unavailable);
  CHECK(no.error.message == at_front);
  CHECK(cluster.call_at(0, "lisa", "z").second == "xz ");
  // Another session is another home's, and nobody minds.
  CHECK(cluster.call_at(arm, "bart", "u").second == "u ");
  // The home that does not have it ends nothing of it.
  CHECK(cluster.node(arm).runner(0).end_session("lisa").ok());
  CHECK(cluster.call_at(arm, "lisa", "y").first.error.message == at_front);
  REQUIRE(cluster.node(0).runner(0).end_session("lisa").ok());
  CHECK(eventually([&] { return cluster.call_at(arm, "lisa", "w").second == "w "; }));
  CHECK(cluster.call_at(0, "lisa", "x").first.error.message ==
        "session 'lisa' is at machine 'arm': call it there");
}

TEST_CASE("sessions that nobody has named are each home's own") {
  TestCluster cluster({chain_yaml}, {2, 2, 2}, chain_role, two_homes(1));
  // Whoever asked would wait.
  cluster.network.hold(1, arm);
  cluster.network.hold(1, 0);
  for (const char* name : {"default", "--calls line 1"})
    for (const std::uint32_t home : {0U, arm}) {
      CHECK(cluster.call_at(home, name).first.ok);
      CHECK(cluster.node(home).runner(0).end_session(name).ok());
    }
}

TEST_CASE("the calls of a session wait for the keeper's word, in order, and no others do") {
  Told told;
  TestCluster cluster({remembering_yaml}, {2, 2, 2}, told.script(), two_homes(1));
  CHECK(cluster.call_at(arm, "bart", "u").second == "u ");
  cluster.network.hold(1, arm);
  Waiting first, second, late;
  Runner& runner = cluster.node(arm).runner(0);
  const auto one = runner.start({"lisa", {{"x", make_text("x")}}, {}}, first.observer());
  const auto two = runner.start({"lisa", {{"x", make_text("y")}}, {}}, second.observer());
  const auto three = runner.start({"lisa", {{"x", make_text("z")}}, 5ms}, late.observer());
  CHECK(cluster.call_at(arm, "bart", "v").second == "uv ");
  CHECK(!late.wait().ok);
  CHECK(late.outcome.error.code == ErrorCode::deadline);
  CHECK(late.outcome.error.message ==
        "the call did not begin within its deadline of 5 ms (the call's own): it waited for the "
        "keeper's word on session 'lisa'");
  CHECK(!first.ended());
  CHECK(!second.ended());
  SECTION("and begin when it comes") {
    cluster.network.let_go(1, arm);
    CHECK(second.wait().ok);
    CHECK(first.wait().ok);
    CHECK(first.text == "x ");
    CHECK(second.text == "xy ");
  }
  SECTION("and one that nobody wants any more ends") {
    one->cancel();
    CHECK(!first.wait().ok);
    CHECK(first.outcome.error.code == ErrorCode::cancelled);
    cluster.network.let_go(1, arm);
    CHECK(second.wait().ok);
    CHECK(second.text == "y ");
  }
  SECTION("and end with the home's life") {
    cluster.network.silence(1, arm);
    CHECK(!first.wait().ok);
    CHECK(!second.wait().ok);
    CHECK(first.outcome.error.message.starts_with(
        "machine 'arm', where the call began, begins anew"));
    cluster.network.let_go(1, arm);
  }
}

TEST_CASE("a session of a home that is lost begins anew at the next one, which says so") {
  const std::uint32_t keeper = GENERATE(0U, 1U);
  Told told;
  TestCluster cluster({remembering_yaml}, {2, 1, 2}, told.script(), two_homes(keeper));
  cluster.session_ends = [&](const std::string& session) { told.forget(session); };
  CHECK(cluster.call_at(arm, "lisa", "x").second == "x ");
  cluster.kill(arm);
  REQUIRE(eventually([&] { return cluster.noticed("machine 'arm' is lost"); }));
  const char* const words =
      "session 'lisa' was at machine 'arm', which is lost: it begins anew at machine 'front'";
  CallOutcome outcome;
  std::string text;
  REQUIRE(eventually([&] {
    std::tie(outcome, text) = cluster.call_at(0, "lisa", "y");
    return outcome.ok;
  }));
  CHECK(text == "y ");
  CHECK(warnings_of(outcome).find(words) != std::string::npos);
  CHECK(cluster.noticed(words));
  CHECK(warnings_of(cluster.call_at(0, "lisa", "z").first).find("anew") == std::string::npos);
  // The one that was given up goes on, and hears where it is.
  cluster.network.thaw(arm);
  REQUIRE(eventually([&] { return cluster.node(arm).lives() == 2; }));
  REQUIRE(cluster.node(arm).wait_for_members(10s).ok());
  CHECK(cluster.call_at(arm, "lisa", "w").first.error.message == at_front);
}

TEST_CASE(
    "a session that its home lost with an earlier life begins anew there, which is said once") {
  Told told;
  TestCluster cluster({remembering_yaml}, {2, 1, 2}, told.script(), two_homes(1));
  cluster.session_ends = [&](const std::string& session) { told.forget(session); };
  CHECK(cluster.call_at(arm, "lisa", "x").second == "x ");
  std::string words;
  SECTION("in the same process") {
    cluster.network.silence(arm, 1);
    words = "session 'lisa' was lost with an earlier life of machine 'arm', where its calls begin";
    REQUIRE(eventually([&] { return cluster.node(arm).lives() == 2; }));
  }
  SECTION("in another one") {
    cluster.kill(arm);
    REQUIRE(eventually([&] { return cluster.noticed("machine 'arm' is lost"); }));
    cluster.start(arm, 9);
    cluster.network.thaw(arm);
    words = "session 'lisa' was at machine 'arm', which is lost: it begins anew at machine 'arm'";
  }
  SECTION("with the keeper") {
    told.forget("lisa@arm");  // a process takes with it what its roles hold
    cluster.start(1, 9);
    words = "session 'lisa' was lost with an earlier life of machine 'arm', where its calls begin";
    REQUIRE(eventually([&] { return cluster.node(arm).lives() == 2; }));
  }
  REQUIRE(cluster.node(arm).wait_for_members(10s).ok());
  const auto [outcome, text] = cluster.call_at(arm, "lisa", "y");
  INFO(outcome.error.message);
  CHECK(outcome.ok);
  CHECK(text == "y ");
  const std::string warnings = warnings_of(outcome);
  INFO(warnings);
  CHECK(warnings.find(words) != std::string::npos);
  CHECK(std::ranges::count(warnings, '\n') == 1);
  CHECK(warnings_of(cluster.call_at(arm, "lisa", "z").first).empty());
}

TEST_CASE("a session's machine that is another process says that the session begins anew there") {
  const std::uint32_t keeper = GENERATE(0U, 2U);
  Told told;
  Wiring wiring;
  wiring.keeper = keeper;
  TestCluster cluster({remembering_by_session()}, {0, 1, 2}, told.script(), wiring);
  cluster.session_ends = [&](const std::string& session) { told.forget(session); };
  CHECK(cluster.call("lisa", "x").second == "x ");
  const char* const words =
      "session 'lisa' was on machine 'gpu', which was started again: it begins anew there";
  SECTION("where it is") {
    told.forget("lisa");  // a process takes with it what its roles hold
    cluster.start(1, 9);
    const Node& home = cluster.home();
    REQUIRE(eventually([&] { return home.status().machines[1].known.incarnation == 9; }));
    REQUIRE(cluster.home().wait_for_members(10s).ok());
    CHECK(cluster.call("bart", "y").first.warnings.empty());
    const auto [outcome, text] = cluster.call("lisa", "y");
    CHECK(text == "y ");
    CHECK(warnings_of(outcome) == std::string(words) + "\n");
    CHECK(cluster.noticed(words));
    CHECK(cluster.call("lisa", "z").first.warnings.empty());
  }
  SECTION("and one that has begun anew in place has kept it") {
    cluster.kill(1);
    REQUIRE(eventually([&] { return cluster.noticed("machine 'gpu' is lost"); }));
    cluster.network.thaw(1);
    REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
    REQUIRE(cluster.node(1).wait_for_members(10s).ok());
    REQUIRE(eventually([&] { return cluster.call("bart", "u").first.ok; }));
    const auto [outcome, text] = cluster.call("lisa", "y");
    CHECK(text == "xy ");
    CHECK(outcome.warnings.empty());
  }
}

TEST_CASE("who asks for sessions and is no home, or gives back what is not its own, is refused") {
  TestCluster cluster({chain_yaml}, {2, 1, 2}, chain_role, two_homes(0));
  REQUIRE(cluster.call_at(0, "lisa").first.ok);
  REQUIRE(cluster.call_at(arm, "bart").first.ok);
  Control control;
  control.text = "lisa";
  std::uint32_t from = arm, to = 0;
  std::string why;
  SECTION("a session for a machine that is no home") {
    from = 2;
    control.kind = Control::Kind::session_wanted;
    why = "it wants a session, and is no home";
  }
  SECTION("another home's session") {
    control.kind = Control::Kind::session_given_back;
    why = "it gives back a session that it does not have";
  }
  SECTION("to who is not the keeper") {
    to = 1;
    control.kind = Control::Kind::session_wanted;
    why = "it says what goes to the keeper";
  }
  SECTION("what only the keeper says") {
    to = 1;
    control.kind = Control::Kind::session_granted;
    why = "it says what only the keeper may say";
  }
  SECTION("an answer that nobody has asked for") {
    from = 0;
    to = arm;
    control.kind = Control::Kind::session_elsewhere;
    control.life = cluster.network.life_of(0);
    why = "it answers for a session that nobody has asked for";
  }
  SECTION("that a session is where no calls begin") {
    from = 0;
    to = arm;
    control.kind = Control::Kind::session_elsewhere;
    control.life = {1, 1};
    why = "it says that a session is at a machine on which no calls begin";
  }
  cluster.network.inject(cluster.network.life_of(from), to, Channel::control,
                         encode_control(control));
  CHECK(eventually([&] { return cluster.noticed(why); }));
  // Whoever said it, or heard it of the keeper, begins anew; the other home's session is its own.
  REQUIRE(eventually([&] { return cluster.node(from == 0 ? to : from).lives() == 2; }));
  for (const std::uint32_t machine : {1U, 2U, arm, 0U})
    REQUIRE(cluster.node(machine).wait_for_members(10s).ok());
  CHECK(cluster.call_at(arm, "lisa").first.error.message == at_front);
  CHECK(cluster.call_at(0, "lisa").first.ok);
}

TEST_CASE("words on sessions are read as they were written") {
  using Kind = Control::Kind;
  for (const Kind kind : {Kind::session_wanted, Kind::session_given_back, Kind::session_granted,
                          Kind::session_elsewhere, Kind::session_denied}) {
    Control control{.kind = kind};
    control.text = "lisa";
    control.life = {3, 7};
    const Result<Control> read = decode_control(encode_control(control));
    REQUIRE(read.ok());
    CHECK(read->kind == kind);
    CHECK(read->text == "lisa");
    const bool has_life = kind == Kind::session_granted || kind == Kind::session_elsewhere;
    CHECK(read->life == (has_life ? Origin{3, 7} : Origin{}));
  }
}

}  // namespace sluice
