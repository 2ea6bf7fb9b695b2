// `sluice why TRACE CALL`: what a call waited for, from its end back to its beginning.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/json_fields.h"

namespace sluice::cli {

namespace {

using nlohmann::json;

constexpr std::size_t trace_bytes_max = std::size_t{2} << 30;

struct Activity {
  std::string node;
  double begin = 0, end = 0, queued = 0, travelled = 0;
  std::int64_t after = -1;
};

struct Trace {
  std::map<std::int64_t, Activity> spans;  // of the call asked for
  std::vector<std::string> elsewhere;      // nodes that ran on other machines: no spans
  json call;
  std::int64_t calls = 0;
};

std::vector<std::string> names_in(const json& args) {
  std::vector<std::string> names;
  if (args.contains("nodes") && args["nodes"].is_array())
    for (const json& name : args["nodes"])
      if (name.is_string()) names.push_back(name.get<std::string>());
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
    if (text_of(event, "ph") != "X") continue;
    const std::string kind = text_of(event, "cat");
    const std::int64_t call = number_of<std::int64_t>(args, "call", -1);
    if (kind == "call" && call < std::numeric_limits<std::int64_t>::max())
      trace.calls = std::max(trace.calls, call + 1);
    if (call != wanted) continue;
    if (kind == "call") trace.call = event;
    if (kind != "activation") continue;
    const double begin = number_of<double>(event, "ts");
    trace.spans[number_of<std::int64_t>(args, "span")] = {
        text_of(event, "name"),
        begin,
        begin + number_of<double>(event, "dur"),
        number_of<double>(args, "queued_us"),
        number_of<double>(args, "travelled_us"),
        number_of<std::int64_t>(args, "after", -1)};
  }
  return trace;
}

/// The chain that ends last, first link first.
std::vector<const Activity*> critical_path(const Trace& trace) {
  const Activity* last = nullptr;
  for (const auto& [id, activity] : trace.spans)
    if (last == nullptr || activity.end > last->end) last = &activity;
  std::vector<const Activity*> path;
  while (last != nullptr && path.size() <= trace.spans.size()) {
    path.push_back(last);
    const auto before = trace.spans.find(last->after);
    last = before == trace.spans.end() ? nullptr : &before->second;
  }
  return {path.rbegin(), path.rend()};
}

int why(const std::string& path, std::int64_t call) {
  const Result<Trace> trace = read_trace(path, call);
  if (!trace.ok()) return fail(trace.error().message);
  if (trace->call.is_null() && trace->spans.empty())
    return fail(path + ": no call " + std::to_string(call) + ", there are " +
                (trace->calls == 0 ? std::string("none")
                                   : std::to_string(trace->calls) + " (0 to " +
                                         std::to_string(trace->calls - 1) + ")"));
  double begin = 0;
  if (trace->call.is_null()) {
    std::printf("call %lld has not ended\n", static_cast<long long>(call));
  } else {
    begin = number_of<double>(trace->call, "ts");
    const json& args = trace->call["args"];
    std::printf("call %lld (%s): %s after %.3f ms\n", static_cast<long long>(call),
                text_of(args, "session").c_str(), text_of(args, "status").c_str(),
                number_of<double>(trace->call, "dur") / 1e3);
    const std::string node = text_of(args, "cause");  // empty: no node failed
    if (args.contains("cause"))
      std::printf("  cause: %s%s%s\n", node.c_str(), node.empty() ? "" : ": ",
                  text_of(args, "message").c_str());
  }
  const json none = json::object();
  const json& facts = trace->call.is_null() ? none : trace->call["args"];
  double behind =
      number_of<double>(facts, "behind_us");  // what the first waited before it was on its way
  std::printf("  %10s  %10s  %10s  %10s  %10s  node\n", "at ms", "its turn", "on its way",
              "in queue", "ran ms");
  std::map<std::string, double> share;
  if (behind > 0)
    share["its turn, behind call " + std::to_string(number_of<std::int64_t>(facts, "behind")) +
          " of its session"] = behind;
  for (const Activity* one : critical_path(*trace)) {
    const double turn = std::min(std::exchange(behind, 0), one->travelled);
    std::printf("  %10.3f  %10.3f  %10.3f  %10.3f  %10.3f  %s\n", (one->begin - begin) / 1e3,
                turn / 1e3, (one->travelled - turn) / 1e3, one->queued / 1e3,
                (one->end - one->begin) / 1e3, one->node.c_str());
    share["messages on their way, or waiting for other inputs"] += one->travelled - turn;
    share["waiting for a replica of " + one->node] += one->queued;
    share["running " + one->node] += one->end - one->begin;
  }
  if (!trace->elsewhere.empty() && !trace->call.is_null()) {
    double known = 0;
    for (const auto& [what, time] : share) known += time;
    std::string nodes;
    for (const std::string& node : trace->elsewhere) nodes += (nodes.empty() ? "" : ", ") + node;
    std::printf("  the trace holds nothing of %s, which ran on other machines\n", nodes.c_str());
    const double rest = number_of<double>(trace->call, "dur") - known;
    if (rest > 0) share["what ran on other machines, and the way there and back"] = rest;
  }
  const auto most = std::max_element(
      share.begin(), share.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != share.end())
    std::printf("  most of it: %s, %.3f ms\n", most->first.c_str(), most->second / 1e3);
  return 0;
}

}  // namespace

void add_why(CLI::App& app, Chosen& chosen) {
  struct Options {
    std::string trace;
    std::int64_t call = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("why", "Say what a call of a trace waited for, step by step");
  command
      ->add_option("trace", options->trace,
                   "A file written by `sluice run --trace` or `sluice simulate --trace`")
      ->required();
  command->add_option("call", options->call, "Which call, from 0")->required();
  command->callback(
      [&chosen, options] { chosen = [options] { return why(options->trace, options->call); }; });
}

}  // namespace sluice::cli
