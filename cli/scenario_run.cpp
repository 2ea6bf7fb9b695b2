#include "cli/scenario_run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/count_text.h"
#include "graph/print.h"

namespace sluice::cli {

namespace {

using json = nlohmann::ordered_json;

/// For people, who count from 1.
std::string call_name(std::size_t index) { return "call " + std::to_string(index + 1) + ": "; }

std::string seed_text(std::uint64_t seed) { return "seed " + std::to_string(seed); }

std::map<std::string, std::int64_t> firing_counts(const Plan& plan, const sim::Report& report) {
  std::map<std::string, std::int64_t> counts;
  for (const sim::Firing& firing : report.firings) ++counts[plan.nodes[firing.node].name];
  return counts;
}

/// The call ended at a limit: everything it had under way was cancelled, or it was not let in. Or
/// nodes ended at theirs, or not, as time would have it.
bool met_limit(const ScenarioRun& run, const sim::CallReport& call) {
  const Plan& plan = run.plan;
  if (std::ranges::find(run.chance.deadline, true) != run.chance.deadline.end()) return true;
  if (dropped_by_chance(plan, run.chance, call)) return true;
  if (!call.failure) return false;
  const FailureKind kind = call.failure->kind;
  if (kind == FailureKind::frame_limit || kind == FailureKind::cancelled ||
      kind == FailureKind::refused)
    return true;
  // A node's failure is kept, and the rest goes on, to a limit that cuts it short, perhaps.
  const auto came = std::reduce(call.outputs.begin(), call.outputs.end());
  if (std::cmp_greater_equal(came, plan.limits.frames)) return true;
  return call.failure->node == entry_node ? kind == FailureKind::deadline
                                          : call.done - call.arrived >= plan.limits.deadline;
}

bool any_met_limit(const ScenarioRun& run, const sim::Report& report) {
  return std::ranges::any_of(report.calls,
                             [&](const sim::CallReport& call) { return met_limit(run, call); });
}

/// It ran as far as it happened to come, at a limit or with `on_error: cancel`: a number that is
/// expected of it is the most.
bool is_cut_short(const ScenarioRun& run, const sim::CallReport& call) {
  return (run.plan.cancel_on_error && call.failure) || met_limit(run, call);
}

bool is_wrong(std::int64_t came, std::int64_t expected, bool cut_short) {
  return cut_short ? came > expected : came != expected;
}

/// The failure's words, and that another order may be without it.
std::string failure_text(const ScenarioRun& run, const Failure& failure) {
  const bool by_chance = failure.kind == FailureKind::deadline && run.chance.deadline[failure.node];
  return failure.error.message +
         (by_chance ? "; with the latency of its script it does in some orders only" : "");
}

void compare_calls(const ScenarioSpec& spec, const ScenarioRun& run, const sim::Report& report,
                   std::vector<std::string>& failures) {
  const Plan& plan = run.plan;
  for (std::size_t i = 0; i < spec.expected_calls.size(); ++i) {
    const ExpectedCall& expected = spec.expected_calls[i];
    const sim::CallReport& call = report.calls[i];
    if (!call.ended) continue;  // which is a violation
    const std::string which = call_name(i);
    const std::string status = call.failure ? "error" : "ok";
    const bool cut_short = is_cut_short(run, call);
    if (expected.status && expected.status->text != status)
      failures.push_back(which + "status is " + status + ", expected " + expected.status->text +
                         (call.failure ? " (" + failure_text(run, *call.failure) + ")" : ""));
    const std::string cause = call.failure ? plan.nodes[call.failure->node].name : "nothing";
    if (expected.cause && expected.cause->text != cause)
      failures.push_back(which + "the cause is " + cause + ", expected " + expected.cause->text);
    for (std::size_t o = 0; expected.no_outputs && o < call.outputs.size(); ++o)
      if (call.outputs[o] != 0)
        failures.push_back(which + "output " + plan.outputs[o].name + " brought " +
                           count_text(call.outputs[o], "frame") + ", expected no output");
    for (const auto& [name, count] : expected.outputs) {
      const auto at = std::ranges::find(plan.outputs, name.text, &PlanOutput::name);
      const auto came = call.outputs[static_cast<std::size_t>(at - plan.outputs.begin())];
      if (is_wrong(static_cast<std::int64_t>(came), count, cut_short))
        failures.push_back(which + "output " + name.text + " brought " + count_text(came, "frame") +
                           ", expected " + (cut_short ? "at most " : "") + std::to_string(count));
    }
  }
}

void compare_firings(const ScenarioSpec& spec, const ScenarioRun& run, const sim::Report& report,
                     std::vector<std::string>& failures) {
  const auto counts = firing_counts(run.plan, report);
  const bool cut_short = std::ranges::any_of(
      report.calls, [&](const sim::CallReport& call) { return is_cut_short(run, call); });
  for (const auto& [node, count] : spec.expected_firings) {
    const auto it = counts.find(node.text);
    const std::int64_t fired = it == counts.end() ? 0 : it->second;
    if (is_wrong(fired, count, cut_short))
      failures.push_back("node " + node.text + " ran " + count_text(fired, "time") + ", expected " +
                         (cut_short ? "at most " : "") + std::to_string(count));
  }
}

/// What differs between two seeds, in a line.
std::string difference(const ScenarioRun& run, const sim::Report& other, std::uint64_t seed) {
  for (std::size_t i = 0; i < other.calls.size(); ++i) {
    const sim::CallReport& a = run.report.calls[i];
    const sim::CallReport& b = other.calls[i];
    if (a.hash() == b.hash()) continue;
    std::string what =
        a.firings_hash == b.firings_hash ? "the failure differs" : "the firings differ";
    if (static_cast<bool>(a.failure) != static_cast<bool>(b.failure)) what = "the status differs";
    if (a.outputs != b.outputs) what = "the number of outputs differs";
    if (a.warnings != b.warnings) what = "the warnings differ";
    return call_name(i) + what + " between the first seed and " + seed_text(seed);
  }
  return "";
}

/// What `--set` names and the workflow has not, where nothing else is wrong with it.
std::string unknown_path(const Diagnostics& diagnostics) {
  std::string first;
  for (const Diagnostic& d : diagnostics) {
    if (d.severity != Severity::error) continue;
    if (d.code != "unknown-path") return "";
    if (first.empty()) first = d.message;
  }
  return first;
}

/// All errors of a workflow, as text, and the first of them in a line.
Error workflow_errors(const LoadedWorkflow& loaded, std::string& text) {
  constexpr std::size_t shown_max = 20;
  const Diagnostic* first = nullptr;
  std::size_t count = 0;
  for (const Diagnostic& d : loaded.diagnostics) {
    if (d.severity != Severity::error) continue;
    if (first == nullptr) first = &d;
    if (++count <= shown_max)
      text += diagnostic_text(d, loaded.spec.file, loaded.text, loaded.included);
  }
  return invalid_argument(
      "workflow: " + place_text(first->mark, loaded.spec.file, loaded.included) + ": " +
      first->message + (count > 1 ? " (and " + std::to_string(count - 1) + " more)" : ""));
}

Result<Script> bind(const std::string& path, const WorkflowOptions& options, const Catalog& catalog,
                    ScenarioRun& run, LoadedScenario& loaded) {
  const std::filesystem::path beside = std::filesystem::path(path).parent_path();
  Result<Compiled> compiled =
      compile_file((beside / loaded.spec.workflow.text).string(), options, catalog);
  if (!compiled.ok()) return invalid_argument("workflow: " + compiled.error().message);
  run.lacks = unknown_path(compiled->loaded.diagnostics);
  if (has_errors(compiled->loaded.diagnostics))
    return workflow_errors(compiled->loaded, run.diagnostics);
  run.plan = std::move(compiled->plan);
  // What `on_full` drops depends on time, which a scenario leaves open: here no queue is ever full.
  for (PlanNode& node : run.plan.nodes)
    if (node.queue_max != 0) node.queue_max = std::numeric_limits<std::uint32_t>::max();
  Script script = bind_scenario(loaded.spec, run.plan, loaded.diagnostics);
  if (has_errors(loaded.diagnostics)) return invalid_argument("the scenario does not fit");
  return script;
}

sim::Options seed_options(const Plan& plan, std::uint64_t seed, bool keep_firings) {
  sim::Options options;
  options.seed = seed;
  options.keep_firings = keep_firings;
  options.events_max = 5'000'000 + sim::loop_events(plan);
  return options;
}

/// A node was given more frames than the limit: they multiply on their way to it, perhaps without
/// end.
bool has_full_node(const sim::Report& report) {
  return std::ranges::any_of(report.calls, [](const sim::CallReport& call) {
    return call.failure && call.failure->kind == FailureKind::frame_limit &&
           call.failure->node != entry_node;
  });
}

/// What the same calls come to when nothing is cancelled: the most that they can bring. Where
/// frames multiply there may be no end, so a limit stays; a call that reaches it is held against
/// nothing.
sim::Report uncut(const ScenarioRun& run, bool is_full, std::uint64_t seed) {
  Plan plan = run.plan;
  plan.cancel_on_error = false;
  const auto counted = std::ranges::count(plan.nodes, true, &PlanNode::frames_counted);
  if (counted == 0)
    plan.limits.frames = std::numeric_limits<decltype(plan.limits.frames)>::max();
  else if (!is_full)
    plan.limits.frames = std::max<std::int64_t>(200'000 / counted, plan.limits.frames);
  plan.limits.calls = std::numeric_limits<decltype(plan.limits.calls)>::max();
  plan.limits.deadline = std::chrono::hours(24 * 365);
  for (PlanNode& node : plan.nodes) {
    if (run.chance.deadline[node.id]) node.deadline = {};
    if (run.chance.max_age[node.id]) node.max_age = {};
  }
  return sim::simulate(plan, run.script, seed_options(plan, seed, false));
}

/// With `on_error: cancel` a failed call stops wherever it was, and so does one at its limit. What
/// holds in every order: its status (at a limit of time not even that), that its cause is a node
/// that failed (an invariant of the simulator), and that it brings no more than it would without
/// the cancellation. Every seed is held against what is expected.
void compare_cut(const ScenarioSpec& spec, const sim::Report& full, const sim::Report& report,
                 std::uint64_t seed, ScenarioRun& run) {
  std::vector<std::string> wrong;
  const std::string without =
      run.plan.cancel_on_error ? "without `on_error: cancel`" : "without its limits";
  for (std::size_t i = 0; i < report.calls.size(); ++i) {
    const sim::CallReport& call = report.calls[i];
    const sim::CallReport& most = full.calls[i];
    if (!most.ended || (most.failure && most.failure->kind == FailureKind::frame_limit)) continue;
    const std::string which = call_name(i);
    const bool met = met_limit(run, call);
    if (!met && static_cast<bool>(call.failure) != static_cast<bool>(most.failure))
      wrong.push_back(which + "the status differs from that " + without);
    if (!met && !call.failure && call.hash() != most.hash())
      wrong.push_back(which + "it did not fail, and differs from that " + without);
    for (std::size_t o = 0; o < call.outputs.size(); ++o)
      if (call.outputs[o] > most.outputs[o])
        wrong.push_back(which + "output " + run.plan.outputs[o].name + " brought " +
                        count_text(call.outputs[o], "frame") + ", " + without + " " +
                        std::to_string(most.outputs[o]));
  }
  compare_calls(spec, run, report, wrong);
  compare_firings(spec, run, report, wrong);
  for (const std::string& what : wrong) run.failures.push_back(seed_text(seed) + ": " + what);
}

/// Why no other order is tried: it would take as long and show the same. Empty: they are tried.
std::string why_enough(const ScenarioRun& run, const sim::Report& report) {
  constexpr std::uint64_t events_enough = 1'000'000;  // where a node is full
  const std::string events = count_text(run.events, "event");
  if (!std::ranges::all_of(report.calls, &sim::CallReport::ended))
    return "calls had not ended after " + events;
  if (run.events > events_enough && has_full_node(report))
    return "a node reached its limit of frames, in " + events;
  return "";
}

void run_seeds(const ScenarioSpec& spec, const Seeds& seeds, ScenarioRun& run) {
  run.chance = find_chance(run.plan, run.script);
  bool cut = run.plan.cancel_on_error;
  std::optional<sim::Report> full;
  for (std::uint64_t i = 0; i < seeds.count; ++i) {
    const std::uint64_t seed = seeds.first + i;
    sim::Report report =
        sim::simulate(run.plan, run.script, seed_options(run.plan, seed, cut || i == 0));
    if (!cut && any_met_limit(run, report)) {
      cut = true;  // seeds before came to the same as the first, which is held against `full` too
      full = uncut(run, has_full_node(report), seeds.first);
      if (i != 0) compare_cut(spec, *full, run.report, seeds.first, run);
      report = sim::simulate(run.plan, run.script, seed_options(run.plan, seed, true));
    }
    if (cut && !full) full = uncut(run, has_full_node(report), seeds.first);
    run.events += report.events;
    const std::string enough = why_enough(run, report);
    for (const std::string& violation : report.violations)
      run.failures.push_back(seed_text(seed) + ": " + violation);
    if (cut)
      compare_cut(spec, *full, report, seed, run);
    else if (i == 0)
      compare_calls(spec, run, report, run.failures);
    else if (std::string what = difference(run, report, seed); !what.empty())
      run.failures.push_back(what);
    if (i == 0) {
      run.report = std::move(report);
      if (!cut) compare_firings(spec, run, run.report, run.failures);
    }
    if (run.failures.size() > 5) return;
    if (enough.empty() || i + 1 == seeds.count) continue;
    run.seeds = i + 1;
    run.stopped = count_text(run.seeds, "seed") + " instead of " + std::to_string(seeds.count) +
                  ": " + enough;
    return;
  }
}

json call_json(const ScenarioRun& run, std::size_t index) {
  const sim::CallReport& call = run.report.calls[index];
  json out{{"index", index},
           {"session", run.script.sessions[run.script.calls[index].session]},
           {"status", call.failure ? "error" : "ok"},
           {"outputs", json::object()},
           {"warnings", call.warnings},
           {"firings", json::array()}};
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    out["outputs"][run.plan.outputs[i].name] = call.outputs[i];
  if (call.failure)
    out["cause"] = {{"node", run.plan.nodes[call.failure->node].name},
                    {"kind", std::string(to_string(call.failure->kind))},
                    {"message", call.failure->error.message}};
  std::vector<std::pair<std::string, json>> firings;
  for (const sim::Firing& firing : run.report.firings) {
    if (firing.call != index) continue;
    const PlanNode& node = run.plan.nodes[firing.node];
    json one{{"node", node.name}, {"group", firing.group}};
    if (node.fan_out() > 1) one["replica"] = firing.replica;
    one["inputs"] = json::object();
    for (const sim::FiringInput& input : firing.inputs)
      one["inputs"][node.groups[firing.group].fields[input.field]].push_back(
          sim::token_text(input.token));
    firings.emplace_back(sim::identity_of(run.plan, firing), std::move(one));
  }
  std::ranges::sort(firings, {}, [](const auto& one) { return one.first; });
  for (auto& [identity, one] : firings) out["firings"].push_back(std::move(one));
  return out;
}

}  // namespace

ScenarioRun run_scenario(const std::string& path, const WorkflowOptions& options,
                         const Catalog& catalog, const Seeds& seeds) {
  ScenarioRun run;
  run.file = path;
  run.seeds = seeds.count;
  Result<LoadedScenario> loaded = load_scenario_file(path);
  if (!loaded.ok()) {
    run.failures.push_back(loaded.error().message);
    return run;
  }
  run.loaded = std::move(*loaded);
  run.name = run.loaded.spec.name;
  std::string wrong = "the scenario has errors";
  if (!has_errors(run.loaded.diagnostics)) {
    Result<Script> script = bind(path, options, catalog, run, run.loaded);
    if (script.ok()) {
      run.script = std::move(script).value();
      run.ran = true;
    } else {
      wrong = script.error().message;
    }
  }
  for (const Diagnostic& d : run.loaded.diagnostics)
    run.diagnostics += diagnostic_text(d, path, run.loaded.text);
  if (!run.ran) {
    run.failures.push_back(wrong);
    return run;
  }
  run_seeds(run.loaded.spec, seeds, run);
  return run;
}

std::string scenario_json(const ScenarioRun& run, bool skipped) {
  if (skipped)
    return json{{"scenario", run.name}, {"file", run.file}, {"skipped", run.lacks}}.dump(
        -1, ' ', false, json::error_handler_t::replace);
  json out{{"scenario", run.name},           {"file", run.file},         {"seeds", run.seeds},
           {"passed", run.failures.empty()}, {"failures", run.failures}, {"calls", json::array()}};
  if (!run.stopped.empty()) out["stopped"] = run.stopped;
  if (run.ran)
    for (std::size_t i = 0; i < run.report.calls.size(); ++i)
      out["calls"].push_back(call_json(run, i));
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace sluice::cli
