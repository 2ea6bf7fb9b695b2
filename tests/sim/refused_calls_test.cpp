// More calls than a workflow takes at once (limits: calls): which are refused, and that nothing
// changes for the others.
#include <catch2/catch.hpp>
#include <string>

#include "runtime/sim/simulation.h"
#include "world.h"

using namespace sluice;
using namespace std::chrono_literals;
using sluice::testing::bind;
using sluice::testing::Bound;
using sluice::testing::three_calls;

namespace {

/// Calls of six sessions, of which a home takes `most` at once.
Bound crowd(std::int64_t most, std::size_t calls) {
  Bound bound = bind(three_calls);
  const ScriptCall one = bound.script.calls[0];
  bound.script.sessions = {"a", "b", "c", "d", "e", "f"};
  bound.script.calls.assign(calls, one);
  for (std::size_t i = 0; i < calls; ++i) bound.script.calls[i].session = i % 6;
  bound.plan.limits.calls = most;
  return bound;
}

bool is_refused(const sim::CallReport& call) {
  return call.failure && call.failure->kind == FailureKind::refused;
}

}  // namespace

TEST_CASE("of calls that come at once a home takes as many as the limit says") {
  const Bound bound = crowd(4, 12);
  const sim::Report report = sim::simulate(bound.plan, bound.script, sim::Options());
  REQUIRE(report.violations.empty());
  for (std::size_t i = 0; i < report.calls.size(); ++i) {
    INFO("call " << i);
    const sim::CallReport& call = report.calls[i];
    CHECK(is_refused(call) == (i >= 4));
    if (i < 4) continue;
    CHECK(call.done == call.arrived);  // at once
    CHECK(call.failure->error.code == ErrorCode::exhausted);
    CHECK(call.failure->error.message ==
          "workflow 'diamond' has 4 calls under way, as many as it takes at once (limits: calls); "
          "call again when some have ended");
  }
}

TEST_CASE("with twice the calls that can be served, those that are let in end as if alone") {
  const Bound bound = crowd(5, 60);
  Bound alone = crowd(1000, 60);
  const sim::Report each = sim::simulate(alone.plan, alone.script, sim::Options());
  std::size_t refused = 0, served = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    sim::Options options;
    options.seed = seed;
    options.machines = 3;
    options.between_calls = 1ms;
    options.queue_at_replicas = true;
    const sim::Report report = sim::simulate(bound.plan, bound.script, options);
    INFO("seed " << seed);
    for (const std::string& violation : report.violations) UNSCOPED_INFO(violation);
    REQUIRE(report.violations.empty());
    for (std::size_t i = 0; i < report.calls.size(); ++i) {
      const sim::CallReport& call = report.calls[i];
      ++(is_refused(call) ? refused : served);
      if (is_refused(call))
        CHECK(call.done == call.arrived);
      else
        CHECK(call.hash() == each.calls[i].hash());
    }
  }
  CHECK(refused > 1000);
  CHECK(served > 500);
}

TEST_CASE("whatever fails, a home refuses only what is too much, and takes calls again") {
  const Bound bound = crowd(3, 60);
  std::size_t refused = 0, served = 0, orphaned = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    sim::Options options;
    options.seed = seed;
    options.machines = 4;
    options.between_calls = 10ms;
    options.faults = sim::all_faults();
    const sim::Report report = sim::simulate(bound.plan, bound.script, options);
    INFO("seed " << seed);
    for (const std::string& violation : report.violations) UNSCOPED_INFO(violation);
    REQUIRE(report.violations.empty());  // C26 among them
    for (const sim::CallReport& call : report.calls) {
      REQUIRE(call.ended);
      refused += is_refused(call) ? 1 : 0;
      served += call.failure ? 0 : 1;
      orphaned += call.orphaned ? 1 : 0;
    }
  }
  CHECK(refused > 1000);
  CHECK(served > 1000);
  CHECK(orphaned > 20);
}
