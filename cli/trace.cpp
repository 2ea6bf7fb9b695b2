#include "cli/trace.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace sluice::cli {

namespace {

using json = nlohmann::ordered_json;

double us(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e3; }

json call_event(std::size_t index, const Script& script, const sim::CallReport& call,
                const Plan& plan) {
  json args{{"call", index},
            {"session", script.sessions[script.calls[index].session]},
            {"status", call.failure ? "error" : "ok"}};
  if (call.failure) args["cause"] = plan.nodes[call.failure->node].name;
  if (call.failure) args["message"] = call.failure->error.message;
  return {{"ph", "X"},
          {"cat", "call"},
          {"pid", 1},
          {"tid", script.calls[index].session + 1},
          {"name", "call " + std::to_string(index)},
          {"ts", us(call.arrived)},
          {"dur", us(call.done - call.arrived)},
          {"args", std::move(args)}};
}

json span_event(std::size_t index, const sim::Span& span, const Plan& plan) {
  json args{{"span", index},
            {"call", span.call},
            {"group", span.group},
            {"token", sim::token_text(span.token)},
            {"queued_us", us(span.begin - span.asked)},
            {"travelled_us", us(span.asked - span.sent)}};
  if (span.after != sim::Span::nobody) args["after"] = span.after;
  return {{"ph", "X"},
          {"cat", "activation"},
          {"pid", 2},
          {"tid", span.node},
          {"name", plan.nodes[span.node].name},
          {"ts", us(span.begin)},
          {"dur", us(span.end - span.begin)},
          {"args", std::move(args)}};
}

json name_event(int process, std::size_t thread, const std::string& name) {
  return {{"ph", "M"},
          {"pid", process},
          {"tid", thread},
          {"name", "thread_name"},
          {"args", {{"name", name}}}};
}

}  // namespace

Result<void> write_trace(const std::string& path, const Plan& plan, const Script& script,
                         const sim::Report& report) {
  std::ofstream file(path, std::ios::binary);
  auto put = [&, first = true](const json& event) mutable {
    file << (first ? "{\"traceEvents\":[\n" : ",\n") << event.dump();
    first = false;
  };
  put({{"ph", "M"}, {"pid", 1}, {"name", "process_name"}, {"args", {{"name", "calls"}}}});
  put({{"ph", "M"}, {"pid", 2}, {"name", "process_name"}, {"args", {{"name", "nodes"}}}});
  for (const PlanNode& node : plan.nodes)
    if (node.id != entry_node) put(name_event(2, node.id, node.name));
  for (std::size_t i = 0; i < script.sessions.size(); ++i)
    put(name_event(1, i + 1, script.sessions[i]));
  for (std::size_t i = 0; i < report.calls.size(); ++i)
    if (report.calls[i].ended) put(call_event(i, script, report.calls[i], plan));
  for (std::size_t i = 0; i < report.spans.size(); ++i) put(span_event(i, report.spans[i], plan));
  file << "\n]}\n";
  file.close();
  if (!file) return Error{ErrorCode::unavailable, path + ": cannot be written"};
  return {};
}

}  // namespace sluice::cli
