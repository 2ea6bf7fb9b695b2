// `sluice why TRACE CALL`: what a call waited for, from its end back to its beginning, and what
// it did not run.
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/count_text.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/json_fields.h"
#include "cli/terminal_text.h"

namespace sluice::cli {

namespace {

using nlohmann::json;

constexpr std::size_t trace_bytes_max = std::size_t{2} << 30;
constexpr std::size_t lines_shown = 20;

struct Activity {
  std::string node;
  double begin = 0, end = 0, queued = 0, travelled = 0;
  std::int64_t after = -1;
};

struct Trace {
  std::map<std::int64_t, Activity> spans;  // of the call asked for
  /// Its inputs that did not run: by node and why, how often.
  std::map<std::pair<std::string, std::string>, std::uint64_t> drops;
  std::vector<std::string> elsewhere;  // nodes whose roles other machines have: no spans
  json call;                           // as it began last
  std::size_t beginnings = 0;    // that have ended; several: a machine was lost amid the others
  std::set<std::int64_t> calls;  // the numbers of all
};

/// Names and messages of a trace are others' words: a session's name may be a caller's.
std::string words_of(const json& from, const char* key) { return escaped_line(text_of(from, key)); }

std::vector<std::string> names_in(const json& args) {
  std::vector<std::string> names;
  if (args.contains("nodes") && args["nodes"].is_array())
    for (const json& name : args["nodes"])
      if (name.is_string()) names.push_back(escaped_line(name.get<std::string>()));
  return names;
}

Result<Trace> read_trace(const std::string& path, std::int64_t wanted) {
  const Result<std::string> text = read_whole_file(path, trace_bytes_max);
  if (!text.ok()) return text.error();
  const json data = json::parse(*text, nullptr, false);
  if (!data.is_object() || !data.contains("traceEvents") || !data["traceEvents"].is_array())
    return invalid_argument(path +
                            ": not a trace of `sluice run --trace` or `sluice simulate --trace`");
  Trace trace;
  for (const json& event : data["traceEvents"]) {
    if (!event.is_object() || !event.contains("args") || !event["args"].is_object()) continue;
    const json& args = event["args"];
    if (text_of(event, "ph") == "M" && text_of(event, "name") == "elsewhere")
      trace.elsewhere = names_in(args);
    const std::string kind = text_of(event, "cat");
    const std::int64_t call = number_of<std::int64_t>(args, "call", -1);
    if (text_of(event, "ph") == "i" && kind == "drop" && call == wanted)
      ++trace.drops[{words_of(args, "node"), words_of(args, "why")}];
    if (text_of(event, "ph") != "X") continue;
    const bool is_number = call >= 0 && call < std::numeric_limits<std::int64_t>::max();
    if (is_number && (kind == "call" || kind == "activation")) trace.calls.insert(call);
    if (call != wanted) continue;
    if (kind == "call") {
      const double last = trace.call.is_null() ? 0 : number_of<double>(trace.call, "ts");
      if (++trace.beginnings == 1 || number_of<double>(event, "ts") >= last) trace.call = event;
    }
    if (kind != "activation") continue;
    const double begin = number_of<double>(event, "ts");
    trace.spans[number_of<std::int64_t>(args, "span")] = {
        words_of(event, "name"),
        begin,
        begin + number_of<double>(event, "dur"),
        number_of<double>(args, "queued_us"),
        number_of<double>(args, "travelled_us"),
        number_of<std::int64_t>(args, "after", -1)};
  }
  if (trace.beginnings > 1) {
    const double began = number_of<double>(trace.call, "ts");
    std::erase_if(trace.spans, [&](const auto& span) { return span.second.begin < began; });
  }
  return trace;
}

/// The chain that ends last, first link first; an activity is in it once.
std::vector<const Activity*> critical_path(const Trace& trace) {
  const Activity* last = nullptr;
  for (const auto& [id, activity] : trace.spans)
    if (last == nullptr || activity.end > last->end) last = &activity;
  std::vector<const Activity*> path;
  std::set<const Activity*> seen;
  while (last != nullptr && seen.insert(last).second) {
    path.push_back(last);
    const auto before = trace.spans.find(last->after);
    last = before == trace.spans.end() ? nullptr : &before->second;
  }
  return {path.rbegin(), path.rend()};
}

/// Microseconds of the call's time that one activity of the path stands for.
struct Step {
  const Activity* what = nullptr;
  double turn = 0, way = 0, queue = 0, ran = 0;
};

/// The whole time of a call, cut at what its path did, so that the parts add up to it.
struct Parts {
  std::vector<Step> steps;
  double elsewhere = 0;  // no activity of the trace stands for it
  double ending = 0;     // from the last activity's end to the call's
};

/// An activity counts until the frame left that the next one waited for; what it did then is beside
/// the path. `behind`: what the first waited before it was on its way.
Parts parts_of(const Trace& trace, double begin, double end, double behind) {
  Parts parts;
  double at = begin;
  const auto until = [&](double to) {
    const double from = at;
    at = std::max(at, std::min(to, end));
    return at - from;
  };
  const std::vector<const Activity*> path = critical_path(trace);
  for (std::size_t i = 0; i < path.size(); ++i) {
    const Activity& one = *path[i];
    const double asked = one.begin - one.queued;
    Step step{&one};
    if (i == 0) step.turn = until(std::min(begin + behind, asked));
    if (!trace.elsewhere.empty()) parts.elsewhere += until(asked - one.travelled);
    step.way = until(asked);
    step.queue = until(one.begin);
    const Activity* next = i + 1 < path.size() ? path[i + 1] : nullptr;
    step.ran =
        until(next ? std::min(one.end, next->begin - next->queued - next->travelled) : one.end);
    parts.steps.push_back(step);
  }
  (trace.elsewhere.empty() ? parts.ending : parts.elsewhere) += end - at;
  return parts;
}

void print_parts(const Parts& parts, double begin) {
  std::printf("  %10s  %10s  %10s  %10s  %10s  node\n", "at ms", "its turn", "on its way",
              "in queue", "ran ms");
  Step all;
  const auto print = [](const char* at, const Step& step, const std::string& text) {
    std::printf("  %10s  %10.3f  %10.3f  %10.3f  %10.3f  %s\n", at, step.turn / 1e3, step.way / 1e3,
                step.queue / 1e3, step.ran / 1e3, text.c_str());
  };
  const auto ms = [](double time) {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%.3f", time / 1e3);
    return std::string(text.data());
  };
  for (const Step& step : parts.steps) {
    const double beside = step.what->end - step.what->begin - step.ran;
    print(
        ms(step.what->begin - begin).c_str(), step,
        step.what->node + (beside >= 1 ? ", and " + ms(beside) + " more beside what follows" : ""));
    all.turn += step.turn;
    all.way += step.way;
    all.queue += step.queue;
    all.ran += step.ran;
  }
  if (!parts.steps.empty())
    print("in all", all,
          parts.ending >= 1 ? "and " + ms(parts.ending) + " until the call ended"
          : parts.elsewhere >= 1
              ? "and " + ms(parts.elsewhere) + " on other machines, or on the way there and back"
              : "-");
}

/// A role may be on this machine and on others.
bool ran_here(const Trace& trace, const std::string& node) {
  return std::ranges::any_of(trace.spans,
                             [&](const auto& span) { return span.second.node == node; });
}

/// Each kind of time of each node by itself, so that none is large for being many.
void print_most(const Trace& trace, const Parts& parts, const json& facts) {
  std::map<std::string, double> share;
  const std::string its_turn = "its turn, behind call " +
                               std::to_string(number_of<std::int64_t>(facts, "behind")) +
                               " of its session";
  if (parts.steps.empty() && facts.contains("behind"))
    share[its_turn] = number_of<double>(facts, "behind_us");
  for (const Step& step : parts.steps) {
    const std::string& node = step.what->node;
    share[its_turn] += step.turn;
    share["on the way to " + node + ", or waiting for its other inputs"] += step.way;
    share["waiting for a replica of " + node] += step.queue;
    share["running " + node] += step.ran;
  }
  if (!parts.steps.empty())
    share["what was left to do behind " + parts.steps.back().what->node] = parts.ending;
  if (!trace.elsewhere.empty() && !trace.call.is_null()) {
    std::string nodes;
    for (const std::string& node : trace.elsewhere)
      if (!ran_here(trace, node)) nodes += (nodes.empty() ? "" : ", ") + node;
    if (!nodes.empty())
      std::printf("  the trace holds nothing of %s: other machines run them, or would have\n",
                  nodes.c_str());
    share["on other machines, or on the way there and back"] = parts.elsewhere;
  }
  const auto most = std::max_element(
      share.begin(), share.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != share.end())
    std::printf("  most of it: %s, %.3f ms\n", most->first.c_str(), most->second / 1e3);
}

void print_call(const Trace& trace, std::int64_t number) {
  if (trace.call.is_null())
    return void(std::printf("call %lld has not ended\n", static_cast<long long>(number)));
  const json& args = trace.call["args"];
  std::printf("call %lld (%s): %s after %.3f ms\n", static_cast<long long>(number),
              words_of(args, "session").c_str(), words_of(args, "status").c_str(),
              number_of<double>(trace.call, "dur") / 1e3);
  if (trace.beginnings > 1)
    std::printf("  it began %zu times, for a machine was lost; this is the last of them\n",
                trace.beginnings);
  const std::string node = words_of(args, "cause");  // empty: no node failed
  if (args.contains("cause"))
    std::printf("  cause: %s%s%s\n", node.c_str(), node.empty() ? "" : ": ",
                words_of(args, "message").c_str());
}

/// What came for nodes that drop what waits, and did not run.
void print_drops(const Trace& trace) {
  std::size_t width = 0, shown = 0;
  for (const auto& [what, times] : trace.drops) width = std::max(width, what.first.size());
  if (!trace.drops.empty()) std::printf("  inputs that did not run:\n");
  for (const auto& [what, times] : trace.drops) {
    if (++shown > lines_shown) continue;
    std::printf("    %-*s  %s, %s\n", static_cast<int>(std::min<std::size_t>(width, 64)),
                what.first.c_str(), count_text(times, "time").c_str(), what.second.c_str());
  }
  if (shown > lines_shown) std::printf("    and %zu more\n", shown - lines_shown);
}

/// The nodes that the call did not run.
void print_skipped(const json& facts) {
  if (!facts.contains("skipped") || !facts["skipped"].is_array()) return;
  std::vector<const json*> skipped;
  std::size_t width = 0;
  for (const json& one : facts["skipped"])
    if (one.is_object()) skipped.push_back(&one);
  const std::size_t shown = std::min(skipped.size(), lines_shown);
  for (std::size_t i = 0; i < shown; ++i)
    width = std::max(width, words_of(*skipped[i], "node").size());
  if (shown > 0) std::printf("  did not run:\n");
  for (std::size_t i = 0; i < shown; ++i)
    std::printf("    %-*s  %s\n", static_cast<int>(std::min<std::size_t>(width, 64)),
                words_of(*skipped[i], "node").c_str(), words_of(*skipped[i], "why").c_str());
  if (skipped.size() > shown) std::printf("    and %zu more\n", skipped.size() - shown);
}

std::string calls_there_are(const std::set<std::int64_t>& calls) {
  if (calls.empty()) return "there are none";
  const std::string first = std::to_string(*calls.begin());
  if (calls.size() == 1) return "there is one, call " + first;
  return "there are " + std::to_string(calls.size()) + " (" + first + " to " +
         std::to_string(*calls.rbegin()) + ")";
}

int why(const std::string& path, std::int64_t call) {
  const Result<Trace> trace = read_trace(path, call);
  if (!trace.ok()) return fail(trace.error().message);
  if (trace->call.is_null() && trace->spans.empty())
    return fail(path + ": no call " + std::to_string(call) + ", " + calls_there_are(trace->calls));
  print_call(*trace, call);
  const bool has_ended = !trace->call.is_null();
  const json facts = has_ended ? trace->call["args"] : json::object();
  double begin = has_ended ? number_of<double>(trace->call, "ts") : 0;
  double end = begin + (has_ended ? number_of<double>(trace->call, "dur") : 0);
  const double shown_from = begin;
  if (const auto known = critical_path(*trace); !has_ended && !known.empty()) {
    begin = known.front()->begin - known.front()->queued - known.front()->travelled;
    end = known.back()->end;
  }
  const Parts parts = parts_of(*trace, begin, end, number_of<double>(facts, "behind_us"));
  if (!parts.steps.empty())
    print_parts(parts, shown_from);
  else if (trace->elsewhere.empty())
    std::printf("  no node ran\n");
  print_most(*trace, parts, facts);
  print_drops(*trace);
  print_skipped(facts);
  return 0;
}

}  // namespace

void add_why(Command app, Chosen& chosen) {
  struct Options {
    std::string trace;
    std::int64_t call = 0;
  };
  auto options = std::make_shared<Options>();
  Command command = app.add_subcommand(
      "why", "Say what a call of a trace waited for, step by step, and what it did not run");
  command
      .add_option("trace", options->trace,
                  "A file written by `sluice run --trace` or `sluice simulate --trace`")
      .required();
  command.add_option("call", options->call, "Which call, from 1; of `run --calls` its line")
      .required();
  command.callback(
      [&chosen, options] { chosen = [options] { return why(options->trace, options->call); }; });
}

}  // namespace sluice::cli
