// `sluice simulate FILE`: what a workflow would do under load, and whether anything can break it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/count_text.h"
#include "cli/commands.h"
#include "cli/compiled.h"
#include "cli/file_kind.h"
#include "cli/load_advice.h"
#include "cli/output_files.h"
#include "cli/run_calls.h"
#include "cli/shell_word.h"
#include "cli/trace.h"
#include "graph/loop_ends.h"
#include "graph/print.h"
#include "graph/script.h"
#include "runtime/sim/simulation.h"
#include "workflows/load_scenario.h"

namespace sluice::cli {

namespace {

struct SimulateOptions {
  std::string file;
  std::string profile;
  std::string trace;
  std::uint64_t calls = 100;
  std::uint64_t sessions = 4;
  std::uint64_t seed = 1;
  std::uint64_t seeds = 1;
  std::uint32_t machines = 1;
  std::uint64_t concurrency = 0;  // as of `run --calls`; none: as many as there
  double rate = 0;                // 0: not given, calls begin as others end
  bool faults = false;
  WorkflowOptions workflow;
};

/// How calls come, in words for the report. One call comes in no way.
std::string load_text(const SimulateOptions& options) {
  if (options.calls == 1) return "";
  char text[64];
  if (options.rate > 0)
    std::snprintf(text, sizeof(text), "%g a second, ", options.rate);
  else if (options.concurrency < options.calls)
    std::snprintf(text, sizeof(text), "%llu at once, ",
                  static_cast<unsigned long long>(options.concurrency));
  else
    return "all at once, ";
  return text;
}

double ms(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::ceil(share * last))];
}

void print_row(const char* name, std::vector<double> values) {
  std::ranges::sort(values);
  std::printf("  %-14s p50 %9.2f  p90 %9.2f  p99 %9.2f  max %9.2f ms\n", name,
              percentile(values, 0.5), percentile(values, 0.9), percentile(values, 0.99),
              percentile(values, 1));
}

void print_report(const Plan& plan, const sim::Report& report, const SimulateOptions& options) {
  std::vector<double> latency;
  std::vector<double> first;
  std::size_t errors = 0;
  for (const sim::CallReport& call : report.calls) {
    errors += call.failure ? 1 : 0;
    if (call.failure && call.failure->kind == FailureKind::refused) continue;  // took no time
    latency.push_back(ms(call.done - call.arrived));
    if (call.first_output != Instant{}) first.push_back(ms(call.first_output - call.arrived));
  }
  const double seconds = ms(report.finished) / 1000;
  std::printf("%s, %sin %s on %s, %.3f s of virtual time\n",
              count_text(report.calls.size(), "call").c_str(), load_text(options).c_str(),
              count_text(std::min(options.sessions, options.calls), "session").c_str(),
              count_text(options.machines, "machine").c_str(), seconds);
  print_row("whole call", std::move(latency));
  if (!first.empty()) print_row("first output", std::move(first));
  std::printf("  throughput     %.1f calls/s, %zu ended with an error\n",
              seconds > 0 ? static_cast<double>(report.calls.size()) / seconds : 0.0, errors);
  std::printf("  longest queues ");
  bool any = false;
  for (const PlanNode& node : plan.nodes)
    if (report.queue_peaks[node.id] > 0) {
      std::printf("%s%s %zu", any ? ", " : "", node.name.c_str(), report.queue_peaks[node.id]);
      any = true;
    }
  std::printf("%s\n  event hash     %016llx (%s, seed %llu)\n", any ? "" : "none",
              static_cast<unsigned long long>(report.hash),
              count_text(report.events, "event").c_str(),
              static_cast<unsigned long long>(options.seed));
  if (!options.profile.empty()) return;
  const NodeScriptSpec plain;
  std::printf(
      "  note           nobody said what nodes do: each takes %lld to %lld ms and yields all its "
      "fields once%s; --profile FILE says it\n",
      static_cast<long long>(plain.latency_least.count()),
      static_cast<long long>(plain.latency_most.count()),
      plan.loop_nodes > 0 ? ", and each loop goes round twice" : "");
}

using Counts = std::map<std::string, std::size_t>;  // what was said -> of how many calls

/// Most of them first.
void print_counts(const char* kind, const Counts& calls) {
  constexpr std::size_t lines = 5;
  std::vector<std::pair<std::size_t, std::string>> most;
  for (const auto& [text, count] : calls) most.emplace_back(count, text);
  std::ranges::stable_sort(most, std::greater(), &std::pair<std::size_t, std::string>::first);
  for (std::size_t i = 0; i < most.size() && i < lines; ++i)
    std::printf("  %-14s %s (%s)\n", kind, most[i].second.c_str(),
                count_text(most[i].first, "call").c_str());
  if (most.size() > lines) std::printf("  %-14s and %zu more\n", kind, most.size() - lines);
}

/// What calls warned of.
void print_warnings(const sim::Report& report) {
  Counts calls;
  for (const sim::CallReport& call : report.calls)
    for (const std::string& warning : call.warnings) ++calls[warning];
  print_counts("warning", calls);
}

/// Whether two calls were under way at once.
bool overlap(const sim::Report& report) {
  std::vector<std::pair<Instant, Instant>> times;
  for (const sim::CallReport& call : report.calls) times.emplace_back(call.arrived, call.done);
  std::ranges::sort(times);
  Instant busy = Instant::min();
  for (const auto& [arrived, done] : times) {
    if (arrived < busy) return true;
    busy = std::max(busy, done);
  }
  return false;
}

/// How many calls failed, and of what.
struct Failed {
  Counts calls;
  LoadCounts load;

  bool all() const { return load.failed == load.calls; }

  void add(const sim::Report& report) {
    load.calls += report.calls.size();
    load.overlap = load.overlap || overlap(report);
    for (const sim::CallReport& call : report.calls) {
      if (!call.failure) continue;
      ++load.failed;
      const Failure& failure = *call.failure;
      load.late += failure.kind == FailureKind::deadline && failure.node == entry_node ? 1 : 0;
      load.lost += failure.kind == FailureKind::node_lost ? 1 : 0;
      // Calls' own deadlines differ: they are one cause.
      const bool own = failure.kind == FailureKind::deadline && failure.node == entry_node &&
                       failure.error.message.find("(limits:") == std::string::npos;
      ++calls[own ? "a deadline of the call's own" : failure.error.message];
    }
  }
};

sim::Options sim_options(const Plan& plan, const SimulateOptions& options, std::uint64_t seed) {
  sim::Options sim;
  sim.seed = seed;
  sim.machines = options.machines;
  sim.queue_at_replicas = true;
  sim.keep_firings = false;
  sim.events_max = 5'000'000 + 5'000 * options.calls + sim::loop_events(plan);
  sim.trace = !options.trace.empty();
  if (options.rate > 0)
    sim.between_calls = std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 / options.rate));
  else
    sim.at_once = options.concurrency;
  if (options.faults) sim.faults = sim::all_faults();
  return sim;
}

Result<Script> make_script(const SimulateOptions& options, const Plan& plan) {
  LoadedScenario profile;
  if (!options.profile.empty()) {
    if (Result<void> kind = check_is_profile(options.profile); !kind.ok()) return kind.error();
    Result<LoadedScenario> loaded = load_scenario_file(options.profile);
    if (!loaded.ok()) return loaded.error();
    profile = std::move(loaded).value();
    profile.spec.expected_calls.clear();
    std::erase_if(profile.diagnostics, [](const Diagnostic& d) {
      return d.code == "expects-nothing" || d.code == "no-such-workflow";
    });
  }
  Script script;
  if (!has_errors(profile.diagnostics))
    script = bind_scenario(profile.spec, plan, profile.diagnostics);
  for (const Diagnostic& d : profile.diagnostics)
    std::fputs(diagnostic_text(d, options.profile, profile.text).c_str(), stderr);
  if (has_errors(profile.diagnostics)) return invalid_argument("the profile does not fit");
  if (options.profile.empty()) end_loops(script, plan);
  const std::vector<ScriptCall> given = std::exchange(script.calls, {});
  script.sessions.clear();
  for (std::uint64_t i = 0; i < options.sessions; ++i)
    script.sessions.push_back("session " + std::to_string(i));
  const std::uint64_t all =
      plan.inputs.size() >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << plan.inputs.size()) - 1;
  // Numbers that calls bring: as the scenario's calls do, in turn; 1 where nothing says so.
  const auto numbers = [&](std::uint64_t call) {
    std::vector<std::int64_t> all_one(plan.inputs.size(), 1);
    return given.empty() || given[call % given.size()].numbers.empty()
               ? std::move(all_one)
               : given[call % given.size()].numbers;
  };
  for (std::uint64_t i = 0; i < options.calls; ++i)
    script.calls.push_back({i % options.sessions, all, numbers(i)});
  return script;
}

Load load_of(const SimulateOptions& options) {
  if (options.calls == 1) return Load::alone;
  if (options.rate > 0) return Load::open;
  if (options.concurrency == 1) return Load::in_turn;
  return options.concurrency < options.calls ? Load::closed : Load::together;
}

/// How many are late of calls that come one at a time: of all seeds, or of as many as make enough.
LateAlone late_alone(const Plan& plan, const Script& script, const SimulateOptions& options) {
  constexpr std::uint64_t enough = 100;
  SimulateOptions single = options;
  single.calls = std::min(options.calls, enough);
  single.concurrency = 1;
  single.rate = 0;
  single.trace.clear();
  Script some = script;
  some.calls.resize(single.calls);
  Failed failed;
  for (std::uint64_t i = 0; i < options.seeds && failed.load.calls < enough; ++i)
    failed.add(sim::simulate(plan, some, sim_options(plan, single, options.seed + i)));
  return {failed.load.calls, failed.load.late};
}

/// What calls failed of, and what that says of the load.
void print_failed(const Plan& plan, const Script& script, const SimulateOptions& options,
                  const Failed& failed) {
  print_counts("failed", failed.calls);
  if (failed.load.failed == 0) return;
  const Load load = load_of(options);
  LateAlone alone;
  if (asks_about_one_at_a_time(failed.load, load, options.faults))
    alone = late_alone(plan, script, options);
  const std::string advice = load_advice(failed.load, load, options.faults, alone);
  if (!advice.empty()) std::printf("  note           %s\n", advice.c_str());
}

/// Nothing is predicted by calls that all fail, unless they were to meet trouble.
int status(const Failed& failed, const SimulateOptions& options) {
  return failed.all() && !options.faults ? 1 : 0;
}

/// Many seeds: prints what was tried; on the first violation, how to see it again.
int hunt(const Plan& plan, const Script& script, const SimulateOptions& options) {
  char number[32];
  std::snprintf(number, sizeof(number), "%.17g", options.rate);
  const std::string load = options.rate > 0
                               ? std::string("--rate ") + number
                               : "--concurrency " + std::to_string(options.concurrency);
  sim::FaultCounts faults;
  Failed failed;
  std::uint64_t events = 0;
  for (std::uint64_t i = 0; i < options.seeds; ++i) {
    const sim::Options sim = sim_options(plan, options, options.seed + i);
    const sim::Report report = sim::simulate(plan, script, sim);
    events += report.events;
    faults.add(report.faults);
    failed.add(report);
    std::vector<std::string> violations = report.violations;
    // One seed in a hundred runs twice: nothing but the seed may decide (C17).
    if (i % 100 == 0 && sim::simulate(plan, script, sim).hash != report.hash)
      violations.push_back("C17: the same seed gave other events the second time");
    if (violations.empty()) continue;
    for (const std::string& violation : violations)
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(sim.seed), violation.c_str());
    std::string more = options.profile.empty() ? "" : " --profile " + shell_word(options.profile);
    for (const std::string& set : options.workflow.set) more += " --set " + shell_word(set);
    // Of two seeds the first runs twice, as C17 asks.
    std::printf(
        "event hash %016llx; see it again with\n  sluice simulate %s --calls %llu "
        "--sessions %llu --nodes %u %s%s%s --seed %llu --seeds 2\n",
        static_cast<unsigned long long>(report.hash), shell_word(options.file).c_str(),
        static_cast<unsigned long long>(options.calls),
        static_cast<unsigned long long>(options.sessions), options.machines, load.c_str(),
        more.c_str(), options.faults ? " --faults" : "", static_cast<unsigned long long>(sim.seed));
    return 1;
  }
  std::printf("%s, %s, no violation; %llu of %llu calls ended with an error\n",
              count_text(options.seeds, "seed").c_str(), count_text(events, "event").c_str(),
              static_cast<unsigned long long>(failed.load.failed),
              static_cast<unsigned long long>(options.seeds * options.calls));
  print_failed(plan, script, options, failed);
  if (options.faults) std::fputs(faults.text().c_str(), stdout);
  return status(failed, options);
}

int simulate(SimulateOptions options, const Catalog& catalog,
             const std::vector<std::string>& plugins) {
  Result<Compiled> compiled = compile_file(options.file, options.workflow, catalog);
  if (!compiled.ok()) return fail(compiled.error().message);
  print_diagnostics(*compiled);
  if (!compiled->ok()) return 1;
  if (compiled->loaded.spec.is_library)
    return fail(options.file + " has roles for other workflows to include, and nothing to run");
  if (options.concurrency == 0) options.concurrency = usual_concurrency(compiled->plan);
  Result<Script> script = make_script(options, compiled->plan);
  if (!script.ok()) return fail(script.error().message);
  if (!options.trace.empty()) {
    std::vector<std::string> read = compiled->files();
    read.push_back(options.profile);
    for (const std::string& folder : plugins)
      for (std::string& file : files_below(folder)) read.push_back(std::move(file));
    if (const Result<void> kept = check_not_read({}, options.trace, read); !kept.ok())
      return fail(kept.error().message);
    if (const Result<void> can = check_can_write(options.trace); !can.ok())
      return fail("--trace: " + can.error().message);
  }
  if (options.seeds > 1) return hunt(compiled->plan, *script, options);
  sim::Report report =
      sim::simulate(compiled->plan, *script, sim_options(compiled->plan, options, options.seed));
  print_report(compiled->plan, report, options);
  Failed failed;
  failed.add(report);
  print_failed(compiled->plan, *script, options, failed);
  print_warnings(report);
  if (options.faults) std::fputs(report.faults.text().c_str(), stdout);
  for (const std::string& violation : report.violations)
    std::printf("VIOLATION %s\n", violation.c_str());
  if (!options.trace.empty()) {
    const Result<void> written =
        write_trace(options.trace, compiled->plan, trace_of(compiled->plan, *script, report));
    if (!written.ok()) return fail(written.error().message);
    std::printf("  trace          %s (open it in ui.perfetto.dev, or ask `sluice why`)\n",
                options.trace.c_str());
  }
  return report.violations.empty() ? status(failed, options) : 1;
}

}  // namespace

void add_simulate(Command app, const Catalog& catalog, Chosen& chosen,
                  const std::vector<std::string>& plugins) {
  auto options = std::make_shared<SimulateOptions>();
  Command command = app.add_subcommand(
      "simulate", "Predict times and queues of a workflow under load, or hunt for trouble");
  command.add_option("file", options->file, "A workflow file (YAML)").required();
  command.add_option("--calls", options->calls, "How many calls arrive")
      .check(Range(std::uint64_t{1}, std::uint64_t{1'000'000}));
  command.add_option("--sessions", options->sessions, "Over how many sessions they are spread")
      .check(Range(std::uint64_t{1}, std::uint64_t{100'000}));
  const Option concurrency =
      command
          .add_option("--concurrency", options->concurrency,
                      "Calls under way at once: as one ends the next begins; as many as --calls: "
                      "all come at the same moment")
          .check(Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
          .shown_default(std::to_string(concurrency_usual));
  const Option rate =
      command
          .add_option("--rate", options->rate,
                      "Calls per second that come whether others have ended or not, in place of "
                      "--concurrency")
          .check(Range(1e-6, 1e9));
  command.add_option("--nodes", options->machines, "Over how many machines roles are spread")
      .check(Range(1U, 1024U));
  command.add_option("--profile", options->profile,
                     "A profile or scenario: what roles yield and how long they take");
  command.add_option("--seed", options->seed, "Everything random follows from it");
  command.add_option("--seeds", options->seeds, "Try this many seeds and print totals only")
      .check(Range(std::uint64_t{1}, std::uint64_t{100'000'000}));
  command.add_option("--trace", options->trace, "Write a Chrome/Perfetto trace to this file");
  command.add_flag("--faults", options->faults,
                   "Roles fail and hang, links break, machines pause or are lost, callers cancel");
  add_workflow_options(command, options->workflow);
  command.callback([&catalog, &chosen, &plugins, options, concurrency, rate] {
    const bool both = concurrency.count() > 0 && rate.count() > 0;
    chosen = [&catalog, &plugins, options, both] {
      if (both)
        return fail_usage(
            "--rate says when calls come, --concurrency that the next comes when one ends: give "
            "one of them");
      if (options->trace == "-") return fail_usage("a trace goes to a file; one called '-' is ./-");
      if (options->seeds > 1 && !options->trace.empty())
        return fail_usage("--trace writes one run: it does not go with --seeds, --seed chooses it");
      return simulate(*options, catalog, plugins);
    };
  });
}

}  // namespace sluice::cli
