// When each activation of a simulation was asked for, ran and ended, and which one it followed: its
// trace. Private to runtime/sim. Without a trace that is asked for, nothing is kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "graph/effect.h"
#include "runtime/sim/oracle.h"
#include "runtime/sim/token.h"
#include "runtime/trace.h"

namespace sluice::sim {

class Spans {
 public:
  explicit Spans(bool on) : on_(on) {}

  /// Of an activation that starts, behind the one that brought the last of what it had waited for.
  std::size_t open(const StartActivation& start, std::size_t call, Token identity, Instant now) {
    if (!on_) return Span::nobody;
    Span span{call, start.node, start.group, identity, now, now, now, Span::nobody, now, 0, false};
    Instant latest{-1};
    for (const InputValue& input : start.inputs) {
      const FrameTime& made = frames_[frame_of(*input.value)];
      if (made.at <= latest) continue;
      latest = made.at;
      span.after = made.span;
      span.sent = made.at;
    }
    spans_.push_back(span);
    return spans_.size() - 1;
  }
  /// Its role begins with it.
  void begins(std::size_t span, Instant now) {
    if (on_) spans_[span].begin = now;
  }
  void ends(std::size_t span, Instant now) {
    if (on_) spans_[span].end = now;
  }
  void fails(std::size_t span) {
    if (on_) spans_[span].failed = true;
  }
  /// The activation made a frame of these fields; `Span::nobody`: the call did.
  void makes(FrameNumber number, std::size_t span, std::uint64_t fields, Instant now) {
    if (!on_) return;
    if (span != Span::nobody) spans_[span].fields |= fields;
    frames_.resize(std::max<std::size_t>(frames_.size(), number + 1));
    frames_[number] = {now, span};
  }
  std::vector<Span> take() { return std::exchange(spans_, {}); }

 private:
  struct FrameTime {
    Instant at{};
    std::size_t span = Span::nobody;  // of the activation that made it
  };

  const bool on_;
  std::vector<Span> spans_;
  std::vector<FrameTime> frames_;  // by frame number
};

}  // namespace sluice::sim
