#include "runtime/inproc/recorder.h"

#include <algorithm>

namespace sluice {

void Recorder::follows(const LaneActivation& activation, Instant sent) {
  cause_ = activation.times()->span;
  sent_ = since_began(sent);
}

void Recorder::call_begins(const CallId& id, std::size_t number, const std::string& session,
                           std::uint64_t inputs) {
  follows_nobody();
  const std::lock_guard lock(mutex_);
  calls_[id] = trace_.calls.size();
  const auto [it, added] = sessions_.try_emplace(session, trace_.sessions.size());
  if (added) trace_.sessions.push_back(session);
  const std::size_t before = trace_.calls.empty() ? 0 : trace_.calls.back().number;
  CallSpan& call = trace_.calls.emplace_back();
  call.number = number != 0 ? number : before + 1;
  call.session = it->second;
  call.inputs = inputs;
  call.arrived = since_began(steady_now());
}

void Recorder::call_ends(const CallId& id, bool ok, const std::string& cause,
                         const std::string& message) {
  const std::size_t* index = calls_.find(id);
  if (index == nullptr) return;
  const std::lock_guard lock(mutex_);
  CallSpan& call = trace_.calls[*index];
  if (call.ended) return;
  call.done = since_began(steady_now());
  call.ended = true;
  call.ok = ok;
  call.cause = cause;
  call.message = message;
}

void Recorder::started(LaneActivation& activation, const CallId& call, NodeId node,
                       std::uint16_t group) {
  const std::lock_guard lock(mutex_);
  if (trace_.spans.size() < spans_max_) {
    const std::size_t index = trace_.spans.size();
    running_[index] = &activation.keep_times(index);
    Span& span = trace_.spans.emplace_back();
    span.call = *calls_.find(call);
    span.node = node;
    span.group = group;
    span.asked = span.sent = since_began(steady_now());
    if (cause_ != Span::nobody && trace_.spans[cause_].call == span.call) {
      span.after = cause_;
      span.sent = std::min(sent_, span.asked);
    }
  } else {
    ++trace_.left_out;
    activation.keep_times(Span::nobody);
  }
}

void Recorder::yielded(const LaneActivation& activation, std::uint64_t fields) {
  const std::size_t span = activation.times()->span;
  if (span == Span::nobody) return;
  const std::lock_guard lock(mutex_);
  trace_.spans[span].fields |= fields;
}

void Recorder::failed(const LaneActivation& activation) {
  const std::size_t span = activation.times()->span;
  if (span == Span::nobody) return;
  const std::lock_guard lock(mutex_);
  trace_.spans[span].failed = true;
}

void Recorder::ended(const LaneActivation& activation) {
  const ActivationTimes& times = *activation.times();
  if (times.span == Span::nobody) return;
  const std::lock_guard lock(mutex_);
  Span& span = trace_.spans[times.span];
  running_.erase(times.span);
  span.end = since_began(times.end);
  // One that was cancelled before its role began has no beginning of its own.
  const Instant begin = times.begin.load(std::memory_order_relaxed);
  span.begin = begin == Instant{} ? span.end : since_began(begin);
}

void Recorder::not_started(const NotStarted& inputs) {
  const std::size_t* const call = calls_.find(inputs.call);
  if (call == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (trace_.drops.size() < spans_max_)
    trace_.drops.push_back({*call, inputs.node, since_began(steady_now()), inputs.dropped});
  else
    ++trace_.drops_left_out;
}

Trace Recorder::trace() const {
  const std::lock_guard lock(mutex_);
  Trace copy = trace_;
  const Instant now = since_began(steady_now());
  for (const auto& [index, times] : running_) {
    Span& span = copy.spans[index];
    const Instant begin = times->begin.load(std::memory_order_relaxed);
    span.end = now;
    // Its role has not taken it, or did so after `now`.
    span.begin = begin == Instant{} ? now : std::min(since_began(begin), now);
  }
  return copy;
}

}  // namespace sluice
