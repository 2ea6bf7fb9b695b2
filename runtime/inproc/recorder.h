// Notes what a workflow's calls and activations do, and when, for `Runner::trace`.
//
// Thread: `trace` from any; the rest belongs to whoever drives. Bounds: so many activations as it
// is made for, and as many drops; what comes later is counted and left out. Of calls, each is
// noted: a line for one.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "graph/effect.h"
#include "graph/table.h"
#include "runtime/inproc/activation.h"
#include "runtime/trace.h"

namespace sluice {

class Recorder {
 public:
  explicit Recorder(std::size_t spans_max) : spans_max_(spans_max), began_(steady_now()) {}

  /// What happens from now on follows from this activation's frame or end, made at `sent`.
  void follows(const LaneActivation& activation, Instant sent);
  /// It follows from no activation.
  void follows_nobody() { cause_ = Span::nobody; }

  /// `number`: its caller's; 0: one more than the call before. `inputs`: which it brings, as bits.
  void call_begins(const CallId& id, std::size_t number, const std::string& session,
                   std::uint64_t inputs);
  /// The end for the caller: the first one told counts.
  void call_ends(const CallId& id, bool ok, const std::string& cause, const std::string& message);
  /// Nothing is left of it.
  void forget(const CallId& id) { calls_.erase(id); }
  void started(LaneActivation& activation, const CallId& call, NodeId node, std::uint16_t group);
  /// It made a frame of these fields.
  void yielded(const LaneActivation& activation, std::uint64_t fields);
  void failed(const LaneActivation& activation);
  void ended(const LaneActivation& activation);
  void not_started(const NotStarted& inputs);

  /// What has been noted; what still runs ends now.
  Trace trace() const;

 private:
  Instant since_began(Instant time) const { return time == Instant{} ? time : time - began_; }

  const std::size_t spans_max_;
  const Instant began_;
  std::size_t cause_ = Span::nobody;
  Instant sent_{};
  Table<std::size_t, CallId> calls_;  // that are open -> index in the trace
  std::map<std::string, std::size_t> sessions_;
  mutable std::mutex mutex_;
  std::map<std::size_t, const ActivationTimes*> running_;  // by span: those that have not ended
  Trace trace_;
};

}  // namespace sluice
