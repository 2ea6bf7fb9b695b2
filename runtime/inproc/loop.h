// The engines of a plan that live here, on one thread: performs effects until nothing is left.
//
// Messages between nodes here are a queue of pointers; nothing is called from inside a send, so
// loops and long streams need no stack. Messages for nodes elsewhere go through a port, and come as
// bytes. The host hears of anything only while `run` runs. Thread: one.
// Source: correction 7 of docs/CONTROL_FLOW.md.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/coordinator.h"
#include "graph/engine.h"
#include "graph/plan.h"
#include "runtime/inproc/residence.h"
#include "runtime/wire/codec.h"

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
  /// Only of a loop that is watched.
  virtual void not_started(const NotStarted&) {}
};

class Loop {
 public:
  /// Borrows all but the residence. `port`: null where all nodes are here.
  Loop(const Plan& plan, LoopHost& host, Residence where = {}, LoopPort* port = nullptr);
  ~Loop();

  /// Its host hears of inputs that will not run, too. Before the first call.
  void watch() { effects_.is_watched = true; }
  /// Takes the values of `inputs`; see `Coordinator::call`.
  CallId call(std::uint64_t session, std::span<PayloadRef> inputs, Instant now);
  /// See `Coordinator`.
  void wait_for_starts() { coordinator_.wait_for_starts(); }
  bool start_next() { return coordinator_.start_next(effects_); }
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
  /// See `Engine::warn`.
  void warn(NodeId node, ActivationId activation, std::vector<std::string> warnings);

  /// What another machine has sent. Errors: what is wrong with it, of itself, so that it is the
  /// sender's doing; nothing was done then. What only an engine refuses is the call's error, and
  /// comes to `LoopPort::refused`.
  Result<void> receive(Origin from, std::span<const std::byte> bytes, Instant now);
  /// See `Coordinator`.
  void session_ended(std::uint64_t session) { coordinator_.session_ended(session); }
  std::vector<SessionMove> take_moves() { return coordinator_.take_moves(); }
  /// A machine is gone with all it knew: calls of this home that run there fail.
  void machine_lost(std::uint32_t machine);
  /// This life is over, and its calls with it: what there is of them here goes.
  void home_lost(Origin home);
  /// It is there, and has forgotten all. Returns the calls of this home that the others still give
  /// up.
  std::vector<CallId> machine_back(std::uint32_t machine);
  /// Late messages of these calls may come from others, and must be dropped.
  void forget(const std::vector<CallId>& given_up);
  /// The call, of this home, waits only for the nodes to let go of it.
  bool is_given_up(const CallId& call) const { return coordinator_.is_given_up(call); }
  bool knows(const CallId& call) const { return coordinator_.knows(call); }

  const Residence& where() const { return where_; }

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
  void tell_not_started();
  void dispatch(Message& message);
  /// What was refused, of nobody that could be named.
  void tell_refusals();

  const Plan& plan_;
  LoopHost& host_;
  const Residence where_;
  LoopPort* const port_;
  const bool has_replicas_;  // so that an engine here is not for every call
  const wire::Limits limits_;
  Pools pools_;
  Coordinator coordinator_;
  std::vector<std::unique_ptr<Engine>> engines_;  // index = NodeId; those that live here
  std::vector<NodeId> timed_;                     // of these, nodes with a deadline or an age
  Effects effects_;              // what the engines have asked for and nobody has done yet
  std::vector<Message*> batch_;  // messages that travel now; what they cause goes in the next
  std::size_t next_ = 0;         // of the batch
  std::uint64_t handled_ = 0;
};

}  // namespace sluice
