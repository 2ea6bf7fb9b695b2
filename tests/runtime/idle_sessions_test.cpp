// Sessions that nobody calls: when they are to end, that they do, and what their next call is told.
#include "runtime/idle_sessions.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "base/random.h"
#include "keeping.h"
#include "remembering.h"
#include "test_cluster.h"

namespace sluice {

namespace {

using Time = IdleSessions::Time;
using namespace std::chrono_literals;

Time at(int milliseconds) { return Time(std::chrono::milliseconds(milliseconds)); }

/// The same, as plainly as can be.
class Plain {
 public:
  struct Session {
    int calls = 0;
    int limit = 0, since = 0;  // since: its last call's end, or when its end was tried
    bool is_due = false, is_kept = false;
    int told = 0;  // the limit by which it ended; 0: it did not
  };
  std::set<std::string> due(int now) const {
    std::set<std::string> names;
    for (const auto& [name, one] : sessions)
      if (one.is_due && one.since + one.limit <= now) names.insert(name);
    return names;
  }
  Time next() const {
    Time next = Time::max();
    for (const auto& [name, one] : sessions)
      if (one.is_due) next = std::min(next, at(one.since + one.limit));
    return next;
  }
  std::map<std::string, Session> sessions;
};

class Schedule {
 public:
  explicit Schedule(std::uint64_t seed) : random_(seed) {}

  void step() {
    const std::string name(1, static_cast<char>('a' + random_.next() % 4));
    Plain::Session& one = plain_.sessions[name];
    switch (random_.next() % 5) {
      case 0:
        sessions_.call_begins(name);
        ++one.calls;
        one.is_due = false;
        break;
      case 1:
        end_call(name, one);
        break;
      case 2:
        now_ += static_cast<int>(random_.next() % 15);
        break;
      case 3:
        end_due();
        break;
      default:
        if (random_.next() % 4 != 0) break;
        sessions_.forget(name);
        one.is_due = one.is_kept = false;
        one.told = 0;
    }
    CHECK(sessions_.next() == plain_.next());
  }

 private:
  void end_call(const std::string& name, Plain::Session& one) {
    if (one.calls == 0) return;
    const int limit = static_cast<int>(random_.next() % 3) * 10;
    const bool was_let_in = random_.next() % 4 != 0;
    const auto told =
        sessions_.call_ended(name, std::chrono::milliseconds(limit), was_let_in, at(now_));
    --one.calls;
    one.is_kept = one.is_kept || was_let_in;
    CHECK(told.value_or(0ms).count() == (was_let_in ? std::exchange(one.told, 0) : 0));
    if (one.calls > 0) return;
    one.is_due = limit > 0;
    one.is_kept = one.is_kept && limit > 0;
    one.limit = limit;
    one.since = now_;
  }
  void end_due() {
    const std::set<std::string> due = plain_.due(now_);
    const std::optional<std::string> session = sessions_.take_due(at(now_));
    REQUIRE(session.has_value() == !due.empty());
    if (!session) return;
    REQUIRE(due.contains(*session));
    Plain::Session& one = plain_.sessions[*session];
    one.is_due = false;
    const bool is_called = random_.next() % 3 == 0;  // meanwhile
    if (is_called) {
      sessions_.call_begins(*session);
      ++one.calls;
    }
    const bool is_over = random_.next() % 3 != 0;
    sessions_.ended(*session, is_over, at(now_));
    if (is_over) {
      if (std::exchange(one.is_kept, false)) one.told = one.limit;
    } else if (!is_called) {
      one.is_due = true;
      one.since = now_;
    }
  }

  SplitMix64 random_;
  IdleSessions sessions_;
  Plain plain_;
  int now_ = 0;
};

std::string idle(std::string yaml, const std::string& time) {
  return yaml + "limits: { session_idle: " + time + " }\n";
}

/// A workflow over one role that remembers, in this process, and what its sessions' ends were.
class World {
 public:
  explicit World(const std::string& time) {
    PluginDeclaration plugin;
    plugin.name = "keeping";
    plugin.any_ports = true;
    plugin.global_param_kinds = {"memory"};
    catalog_.add({plugin, [this](const RoleMaking& making) -> Result<RoleInstance> {
                    auto* kept = static_cast<Counted*>(making.global_params[0]);
                    return RoleInstance(std::unique_ptr<Role>(std::make_unique<KeepingRole>(
                        *kept, "r", [this](const std::string& text) { before(text); },
                        [](const std::string&) {})));
                  }});
    catalog_.add_global_param(
        "memory", [this](const GlobalParamMaking&) -> Result<std::unique_ptr<GlobalParam>> {
          return std::unique_ptr<GlobalParam>(std::make_unique<Counted>(ends));
        });
    loaded_ = load_workflow("w.yaml", idle(R"(
sluice: 1
workflow: w
inputs: { x: text }
global_params: { kept: { kind: memory } }
roles: { r: { plugin: keeping, global_params: [kept], replicas: 3, balance: session } }
nodes: { a: { run: r.a, inputs: [ { x: inputs.x } ], outputs: [v] } }
outputs: { out: a.v }
)",
                                           time));
    plan_ = plan_workflow(loaded_, catalog_.declarations());
    REQUIRE(!has_errors(loaded_.diagnostics));
    runner = std::move(Runner::create(loaded_.spec, plan_, catalog_, {})).value();
  }
  ~World() { gate.open(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::pair<CallOutcome, std::string> call(const std::string& session, const std::string& text) {
    std::string came;
    CallOutcome outcome =
        runner->call({session, {{"x", make_text(text)}}},
                     [&](std::string_view, const PayloadRef& value) { came += value->text; });
    return {std::move(outcome), came};
  }

  std::atomic<int> ends{0};
  Gate gate;
  std::unique_ptr<Runner> runner;

 private:
  class Counted final : public Kept {
   public:
    explicit Counted(std::atomic<int>& ends) : ends_(ends) {}
    void end_session(std::string_view session) override {
      Kept::end_session(session);
      ++ends_;
    }

   private:
    std::atomic<int>& ends_;
  };
  void before(const std::string& text) {
    if (text == "waits") gate.wait();
  }

  Catalog catalog_;
  LoadedWorkflow loaded_;
  Plan plan_;
};

}  // namespace

TEST_CASE("in any order of events a session is due when nobody has called it for as long as said") {
  const std::uint64_t seed = GENERATE(range(0, 40));
  INFO("seed " << seed);
  Schedule schedule(seed);
  for (int i = 0; i < 500; ++i) schedule.step();
}

TEST_CASE("sessions that ended so and are never called again do not fill memory") {
  IdleSessions sessions;
  const auto name = [](std::size_t i) { return "s" + std::to_string(i); };
  for (std::size_t i = 0; i <= IdleSessions::told_most; ++i) {
    sessions.call_begins(name(i));
    CHECK_FALSE(sessions.call_ended(name(i), 1ms, true, at(0)));
    REQUIRE(sessions.take_due(at(1)) == name(i));
    sessions.ended(name(i), true, at(1));
  }
  CHECK(sessions.size() == 0);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, IdleSessions::told_most}) {
    sessions.call_begins(name(i));
    CHECK(sessions.call_ended(name(i), 1ms, true, at(2)).has_value() == (i != 0));
  }
}

TEST_CASE("a session that nobody calls ends, and its next call begins anew and says so") {
  World world("5ms");
  CHECK(world.call("lisa", "x").second == "x");
  REQUIRE(eventually([&] { return world.ends == 1; }));
  const auto [outcome, said] = world.call("lisa", "y");
  CHECK(said == "y");
  CHECK(outcome.warnings ==
        std::vector<std::string>{"session 'lisa' had no call for 5 ms and was ended (limits: "
                                 "session_idle): it begins anew"});
  REQUIRE(eventually([&] { return world.ends == 2; }));
  // Another's is not told, and one that its caller ends is not either.
  CHECK(world.call("bart", "x").first.warnings.empty());
}

TEST_CASE("a call under way keeps its session, however long it takes") {
  World world("5ms");
  Waiting waiting;
  const auto handle =
      world.runner->start({"lisa", {{"x", make_text("waits")}}, {}}, waiting.observer());
  CHECK(world.call("bart", "x").second == "x");
  REQUIRE(eventually([&] { return world.ends == 1; }));
  CHECK(world.call("bart", "x").second == "x");
  REQUIRE(eventually([&] { return world.ends == 2; }));
  world.gate.open();
  CHECK(waiting.wait().ok);
  CHECK(waiting.text == "waits ");
  CHECK(eventually([&] { return world.ends == 3; }));
}

TEST_CASE("what a caller has ended is not told as idle, and a refused call begins nothing") {
  World world("1440m");
  CHECK(world.call("lisa", "x").second == "x");
  CHECK(world.runner->end_session("lisa").ok());
  CHECK(world.call("lisa", "y").first.warnings.empty());
  CHECK_FALSE(world.call(std::string(100'000, 'n'), "y").first.ok);
  CHECK(world.ends == 1);
}

TEST_CASE("a home ends its idle sessions everywhere, and another home may have them then") {
  Told told;
  Wiring wiring;
  wiring.machines = 4;
  wiring.homes = {0, 3};
  wiring.keeper = 1;
  TestCluster cluster({idle(remembering_yaml, "5ms")}, {2, 1, 2}, told.script(), wiring);
  std::atomic<int> ends{0};
  cluster.session_ends = [&](const std::string& session) {
    ++ends;  // whoever finds it forgotten finds this too
    told.forget(session);
  };
  CHECK(cluster.call_at(0, "lisa", "x").second == "x ");
  REQUIRE(eventually([&] { return cluster.call_at(3, "lisa", "y").second == "y "; }));
  CHECK(ends >= 1);
}

}  // namespace sluice
