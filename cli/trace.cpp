#include "cli/trace.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/count_text.h"
#include "cli/why_skipped.h"

namespace sluice::cli {

namespace {

using json = nlohmann::ordered_json;

double us(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e3; }

/// Where a session's calls go one after the other: the one before, and how long it was waited for.
struct Turn {
  std::size_t behind = 0;  // its number
  Instant waited{};
};

/// By call; the wait is 0 where its turn came at once.
std::vector<Turn> turns_of(const Plan& plan, const Trace& trace) {
  std::vector<Turn> turns(trace.calls.size());
  if (plan.calls != CallMode::serial) return turns;
  struct Last {
    std::size_t number = 0;
    Instant done{};
  };
  std::vector<Last> last(trace.sessions.size());  // of each session: who ends last so far
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    const CallSpan& call = trace.calls[i];
    if (!call.ended) continue;
    Last& before = last[call.session];
    const Instant until = std::min(before.done, call.done);
    if (until > call.arrived) turns[i] = {before.number, until - call.arrived};
    if (call.done > before.done) before = {call.number, call.done};
  }
  return turns;
}

json call_event(const CallSpan& call, const Turn& turn, const std::vector<SkippedNode>& skipped,
                const Trace& trace) {
  json args{{"call", call.number},
            {"session", trace.sessions[call.session]},
            {"status", call.ok ? "ok" : "error"}};
  if (!call.ok) args["cause"] = call.cause;
  if (!call.ok) args["message"] = call.message;
  if (turn.waited > Instant{}) {
    args["behind"] = turn.behind;
    args["behind_us"] = us(turn.waited);
  }
  for (const SkippedNode& one : skipped)
    args["skipped"].push_back({{"node", one.node}, {"why", one.why}});
  return {{"ph", "X"},
          {"cat", "call"},
          {"pid", 1},
          {"tid", call.session + 1},
          {"name", "call " + std::to_string(call.number)},
          {"ts", us(call.arrived)},
          {"dur", us(call.done - call.arrived)},
          {"args", std::move(args)}};
}

json span_event(std::size_t index, const Span& span, const Trace& trace, const Plan& plan) {
  json args{{"span", index}, {"call", trace.calls[span.call].number}, {"group", span.group}};
  if (span.token != 0) args["token"] = sim::token_text(span.token);
  args["queued_us"] = us(span.begin - span.asked);
  args["travelled_us"] = us(span.asked - span.sent);
  if (span.after != Span::nobody) args["after"] = span.after;
  return {{"ph", "X"},
          {"cat", "activation"},
          {"pid", 2},
          {"tid", span.node},
          {"name", plan.nodes[span.node].name},
          {"ts", us(span.begin)},
          {"dur", us(span.end - span.begin)},
          {"args", std::move(args)}};
}

/// At a node: inputs came for it and did not run.
json drop_event(const Drop& drop, const Trace& trace, const Plan& plan) {
  const PlanNode& node = plan.nodes[drop.node];
  const std::string why =
      drop.for_newer
          ? "for newer ones (on_full: drop_oldest, queue: " + std::to_string(node.queue_max) + ")"
          : "too old, or the call was cancelled";
  return {{"ph", "i"},
          {"s", "t"},
          {"cat", "drop"},
          {"pid", 2},
          {"tid", drop.node},
          {"name", node.name + ": dropped"},
          {"ts", us(drop.at)},
          {"args", {{"call", trace.calls[drop.call].number}, {"node", node.name}, {"why", why}}}};
}

json name_event(int process, std::size_t thread, const std::string& name) {
  return {{"ph", "M"},
          {"pid", process},
          {"tid", thread},
          {"name", "thread_name"},
          {"args", {{"name", name}}}};
}

}  // namespace

Result<void> write_trace(const std::string& path, const Plan& plan, const Trace& trace,
                         const std::vector<std::string>& elsewhere) {
  std::ofstream file(path, std::ios::binary);
  auto put = [&, first = true](const json& event) mutable {
    file << (first ? "{\"traceEvents\":[\n" : ",\n")
         << event.dump(-1, ' ', false, json::error_handler_t::replace);
    first = false;
  };
  put({{"ph", "M"}, {"pid", 1}, {"name", "process_name"}, {"args", {{"name", "calls"}}}});
  put({{"ph", "M"}, {"pid", 2}, {"name", "process_name"}, {"args", {{"name", "nodes"}}}});
  if (!elsewhere.empty())
    put({{"ph", "M"}, {"pid", 2}, {"name", "elsewhere"}, {"args", {{"nodes", elsewhere}}}});
  for (const PlanNode& node : plan.nodes)
    if (node.id != entry_node) put(name_event(2, node.id, node.name));
  for (std::size_t i = 0; i < trace.sessions.size(); ++i)
    put(name_event(1, i + 1, trace.sessions[i]));
  const std::vector<Turn> turns = turns_of(plan, trace);
  const auto skipped = skipped_nodes(plan, trace, elsewhere);
  for (std::size_t i = 0; i < trace.calls.size(); ++i)
    if (trace.calls[i].ended) put(call_event(trace.calls[i], turns[i], skipped[i], trace));
  for (std::size_t i = 0; i < trace.spans.size(); ++i)
    put(span_event(i, trace.spans[i], trace, plan));
  for (const Drop& drop : trace.drops) put(drop_event(drop, trace, plan));
  file << "\n]}\n";
  file.close();
  if (!file) return Error{ErrorCode::unavailable, path + ": cannot be written"};
  return {};
}

Result<void> write_run_trace(const std::string& path, const Plan& plan, const Trace& trace,
                             const std::vector<std::string>& elsewhere) {
  Result<void> written = write_trace(path, plan, trace, elsewhere);
  if (!written.ok()) return written;
  std::fprintf(stderr, "trace: %s (open it in ui.perfetto.dev, or ask `sluice why`)\n",
               path.c_str());
  if (!elsewhere.empty())
    std::fprintf(stderr,
                 "note: of nodes whose roles are on other machines the trace holds nothing\n");
  if (trace.left_out > 0)
    std::fprintf(stderr, "note: the trace holds the first %s, %llu more left out\n",
                 count_text(trace.spans.size(), "activation").c_str(),
                 static_cast<unsigned long long>(trace.left_out));
  if (trace.drops_left_out > 0)
    std::fprintf(stderr, "note: the trace holds the first %s, %llu more left out\n",
                 count_text(trace.drops.size(), "drop").c_str(),
                 static_cast<unsigned long long>(trace.drops_left_out));
  return {};
}

Trace trace_of(const Plan& plan, const Script& script, sim::Report& report) {
  Trace trace;
  trace.sessions = script.sessions;
  for (std::size_t i = 0; i < report.calls.size(); ++i) {
    const sim::CallReport& call = report.calls[i];
    CallSpan& span = trace.calls.emplace_back();
    span.number = i + 1;
    span.session = script.calls[i].session;
    span.arrived = call.arrived;
    span.inputs = script.calls[i].inputs;
    span.done = call.done;
    span.ended = call.ended;
    span.ok = call.failure == nullptr;
    if (span.ok) continue;
    if (call.failure->node != entry_node) span.cause = plan.nodes[call.failure->node].name;
    span.message = call.failure->error.message;
  }
  trace.spans = std::move(report.spans);
  return trace;
}

}  // namespace sluice::cli
