// What a seed's events are, from build to build: their hash, how many, and what went wrong in them.
//
// A change of the engines or of the simulator that is meant changes them too: SLUICE_REWRITE=1.
#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "graph/loop_ends.h"
#include "runtime/sim/simulation.h"
#include "tests/drawn_workflow.h"
#include "tests/journal.h"
#include "tests/outcomes.h"
#include "tests/wire/everything.h"
#include "watched.h"

using namespace sluice;
using namespace std::chrono_literals;
using sluice::testing::bind;
using sluice::testing::Bound;
using sluice::testing::bound_to;
using sluice::testing::three_calls;

namespace {

Bound many_calls(Bound bound, std::size_t calls) {
  bound.script.sessions = {"a", "b", "c"};
  bound.script.calls.clear();
  for (std::size_t i = 0; i < calls; ++i) bound.script.calls.push_back({i % 3, 3, {}});
  return bound;
}

Bound everything() {
  Bound bound = bound_to(sluice::testing::everything);
  end_loops(bound.script, bound.plan);
  bound.script.nodes[bound.plan.find("split")->id].values = {0, 0, 1};
  for (NodeScript& node : bound.script.nodes) node.latency_most = 20ms;
  return many_calls(std::move(bound), 9);
}

/// A workflow of that seed with a script of the same, or nothing where it is refused.
std::optional<Bound> drawn(std::uint64_t seed) {
  PluginDeclaration scripted;
  scripted.name = "scripted";
  scripted.any_ports = true;
  LoadedWorkflow loaded = load_workflow("d.yaml", test::DrawnWorkflow(seed).yaml());
  check(loaded.spec, {scripted}, loaded.diagnostics);
  if (has_errors(loaded.diagnostics)) return std::nullopt;
  Bound bound;
  bound.plan = compile(loaded.spec, {scripted}, loaded.diagnostics);
  if (has_errors(loaded.diagnostics)) return std::nullopt;
  bound.script = bind_scenario({}, bound.plan, loaded.diagnostics);
  if (seed % 2 == 0) end_loops(bound.script, bound.plan);
  SplitMix64 chance(seed);
  for (NodeScript& node : bound.script.nodes) {
    const std::uint64_t how = chance.next() % 8;
    auto& yields = node.by_iteration.front();
    if (how < 3) yields.insert(yields.end(), {1 + chance.next() % 3, 1 + chance.next() % 3});
    if (how == 3) yields.clear();
    node.fail = how == 4 && chance.next() % 3 == 0;
    if (how == 5) node.fail_when_iteration = 1;
    node.latency_least = 1ms;
    node.latency_most = std::chrono::milliseconds(1 + chance.next() % 20);
  }
  bound = many_calls(std::move(bound), 6);
  for (ScriptCall& call : bound.script.calls) {
    call.inputs = chance.next() % 8 == 0 ? 1 : 3;
    call.numbers = {0, static_cast<std::int64_t>(chance.next() % 4)};
  }
  return bound;
}

std::string hexadecimal(std::uint64_t number) { return sim::token_text(number); }

std::string text_of(const sim::Report& report) {
  std::uint64_t calls = 0;
  std::size_t failed = 0, warnings = 0, orphaned = 0;
  for (const sim::CallReport& call : report.calls) {
    calls = sim::mixed(calls ^ call.hash(), static_cast<std::uint64_t>(call.done.count()));
    failed += call.failure ? 1 : 0;
    warnings += call.warnings.size();
    orphaned += call.orphaned ? 1 : 0;
  }
  return hexadecimal(report.hash) + " " + hexadecimal(calls) + ", " +
         std::to_string(report.events) + " events, " + std::to_string(failed) + " failed, " +
         std::to_string(orphaned) + " orphaned, " + std::to_string(warnings) + " warnings, " +
         std::to_string(report.violations.size()) + " violations";
}

}  // namespace

TEST_CASE("a seed's events are those of other builds, with and without faults") {
  test::Outcomes outcomes("simulated");
  const Bound whole = everything();
  const Bound joined = many_calls(bind(three_calls), 9);
  for (const auto& [name, bound] : {std::pair{"everything", &whole}, {"a join", &joined}}) {
    sim::FaultCounts counts;
    for (std::uint64_t seed = 1; seed <= 12; ++seed)
      for (const std::uint32_t machines : {1U, 3U, 5U})
        for (const bool faults : {false, true}) {
          sim::Options options;
          options.seed = seed;
          options.machines = machines;
          options.queue_at_replicas = seed % 2 == 0;
          options.at_once = seed % 4;
          if (faults) options.faults = sim::all_faults();
          const sim::Report report = sim::simulate(bound->plan, bound->script, options);
          outcomes.add(name, text_of(report));
          counts.add(report.faults);
        }
    outcomes.add(name, counts.text());
  }
  outcomes.require_as_kept();
}

TEST_CASE("workflows made by chance have the events of other builds, whatever fails") {
  test::Outcomes outcomes("simulated_drawn");
  std::vector<std::string> journal;
  std::size_t plans = 0;
  for (std::uint64_t seed = 0; plans < 400; ++seed) {
    const std::optional<Bound> bound = drawn(seed);
    if (!bound) continue;
    ++plans;
    for (const std::uint32_t machines : {1U, 3U}) {
      sim::Options options;
      options.seed = seed;
      options.machines = machines;
      options.homes = machines > 1 ? 1 + seed % 2 : 1;
      options.queue_at_replicas = seed % 3 == 0;
      options.window = seed % 2 * 200;
      if (machines > 1 && seed % 4 != 0) options.faults = sim::all_faults();
      const sim::Report report = sim::simulate(bound->plan, bound->script, options);
      journal.push_back(text_of(report));
      for (const sim::CallReport& call : report.calls) {
        if (call.failure) journal.push_back(call.failure->error.message);
        journal.insert(journal.end(), call.warnings.begin(), call.warnings.end());
      }
      for (const std::string& violation : report.violations) outcomes.add("violations", violation);
    }
    if (plans % 10 == 0) outcomes.add("ten of them", test::digest_of(journal));
  }
  outcomes.require_as_kept();
}

TEST_CASE("each kind of fault alone gives the events of other builds") {
  test::Outcomes outcomes("simulated_faults");
  const Bound whole = everything();
  const sim::Faults all = sim::all_faults();
  for (const auto fault :
       {&sim::Faults::role_failure, &sim::Faults::role_hang, &sim::Faults::caller_cancel,
        &sim::Faults::duplicate, &sim::Faults::link_break, &sim::Faults::pause, &sim::Faults::kill,
        &sim::Faults::cut, &sim::Faults::suspect, &sim::Faults::slow, &sim::Faults::hurry,
        &sim::Faults::hostile})
    for (const std::uint32_t homes : {1U, 2U})
      for (const std::size_t window : {std::size_t{0}, std::size_t{300}}) {
        sim::Options options;
        options.seed = 5;
        options.machines = 4;
        options.homes = homes;
        options.window = window;
        options.faults.*fault = std::max(all.*fault, 0.2);
        options.faults.until = 200ms;
        const sim::Report report = sim::simulate(whole.plan, whole.script, options);
        outcomes.add("alone", text_of(report) + "\n" + report.faults.text());
      }
  sim::Options drifting;
  drifting.machines = 3;
  drifting.faults.drift_ppm = 1000;
  drifting.faults.until = 1ms;
  outcomes.add("clocks", text_of(sim::simulate(whole.plan, whole.script, drifting)));
  sim::Options endless;
  endless.events_max = 20;
  const sim::Report cut = sim::simulate(whole.plan, whole.script, endless);
  outcomes.add("an end", cut.violations.empty() ? "none" : cut.violations.front());
  outcomes.require_as_kept();
}
