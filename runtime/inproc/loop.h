// All engines of a plan on one thread: performs effects until nothing is left to do.
//
// Messages between nodes are a queue of pointers; nothing is called from inside a send, so loops
// and long streams need no stack. The host hears of anything only while `run` runs. Thread: one.
// Source: correction 7 of docs/CONTROL_FLOW.md.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/coordinator.h"
#include "graph/engine.h"
#include "graph/plan.h"

namespace sluice {

/// Who runs roles and hears about calls.
class LoopHost {
 public:
  virtual ~LoopHost() = default;
  /// May answer at once with `Loop::yielded` and `Loop::ended`, or later.
  virtual void start(const StartActivation& start) = 0;
  virtual void cancel(const CancelActivation& cancel) = 0;
  virtual void deliver(const DeliverOutput& output) = 0;
  virtual void end(EndCall& end) = 0;
};

class Loop {
 public:
  /// Borrows both.
  Loop(const Plan& plan, LoopHost& host);
  ~Loop();

  /// Takes the values of `inputs`; see `Coordinator::call`.
  CallId call(std::uint64_t session, std::span<PayloadRef> inputs, Instant now);
  void cancel(const CallId& call);
  /// See `Coordinator::give_up`.
  void give_up(const CallId& call);
  void tick(Instant now);
  /// The moment from now on, for what the engines do next.
  void advance(Instant now);
  /// True when a node has a deadline or an age, so that `advance` matters.
  bool timed() const { return !timed_.empty(); }
  Instant next_deadline();

  /// A frame to fill and to give to `yielded`.
  Frame* new_frame(NodeId node) { return pools_.new_frame(node, plan_.nodes[node].outputs.size()); }
  void yielded(NodeId node, ActivationId activation, Frame* frame, bool last);
  void ended(NodeId node, ActivationId activation, std::unique_ptr<Failure> failure);

  /// Works until no message waits.
  void run();

  /// Of all engines together: zero when no call is open.
  EngineCounts counts() const;
  std::size_t calls() const { return coordinator_.calls(); }
  std::size_t messages_in_use() const { return pools_.messages.in_use(); }
  std::size_t frames_in_use() const { return pools_.frames.in_use(); }
  std::size_t scopes_in_use() const { return pools_.scopes.in_use(); }
  std::uint64_t messages_handled() const { return handled_; }

 private:
  /// What callers and roles hear.
  void tell();

  const Plan& plan_;
  LoopHost& host_;
  Pools pools_;
  Coordinator coordinator_;
  std::vector<std::unique_ptr<Engine>> engines_;  // index = NodeId; none for the entry
  std::vector<NodeId> timed_;                     // nodes with a deadline or an age
  Effects effects_;              // what the engines have asked for and nobody has done yet
  std::vector<Message*> batch_;  // messages that travel now; what they cause goes in the next
  std::size_t next_ = 0;         // of the batch
  std::uint64_t handled_ = 0;
};

}  // namespace sluice
