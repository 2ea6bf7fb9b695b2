// The caller's side of a workflow: sessions, calls, outputs in order, and the exact end of a call.
//
// A call starts when its session's turn comes; it ends when all of its credit has come back, which
// is when none of its frames, activations or messages exists anywhere. Pure: time is an argument.
// Thread: one loop. Source: omni-flow, section 3.5 (GCScheduler, ActivityTracker); corrections 2
// and 6 of docs/CONTROL_FLOW.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/effect.h"
#include "graph/missing.h"
#include "graph/order_queue.h"
#include "graph/plan.h"
#include "graph/replica_choice.h"
#include "graph/split.h"
#include "graph/table.h"
#include "graph/warnings.h"

namespace sluice {

class Coordinator {
 public:
  /// Its calls are named by the pools' machine and incarnation. `replicas`: of nodes that several
  /// machines have; each call gets one of them, and its number says which.
  Coordinator(const Plan& plan, Pools& pools, Replicas replicas = {});

  /// Queues a call. `inputs` by the plan's input index; null: not given. Takes the values. Returns
  /// the call's id. Where as many are under way as the workflow's limit says, those that wait for
  /// their turn and those that are given up among them, it is refused: it ends at once, and nothing
  /// is kept of it.
  /// `allowed`: how long it may take, where that is less than the workflow's limit.
  CallId call(std::uint64_t session, std::span<PayloadRef> inputs, Instant now, Effects& effects,
              Instant allowed = Instant::max());
  /// From now on no call starts by itself: those whose turn has come wait for `start_next`.
  void wait_for_starts() { waits_for_starts_ = true; }
  /// Starts the call that has waited longest. False: none waits.
  bool start_next(Effects& effects);
  /// The caller no longer wants the call; it still ends with an outcome.
  void cancel(const CallId& call, Effects& effects);
  /// A cancelled call whose roles do not return, or whose credit is lost: drops all there is of it.
  /// It ends when none of its activations runs.
  void give_up(const CallId& call, Effects& effects);
  /// The machine of these nodes is gone with all it knew: every running call that uses one of them
  /// there fails, and ends as soon as the other nodes have nothing left of it. Until `nodes_back`,
  /// calls that would use one there fail at once. `machine`: which of several it is, for nodes that
  /// have several.
  void nodes_lost(const std::vector<NodeId>& nodes, Effects& effects, std::uint32_t machine = 0);
  /// Engines without memory stand in their place. The result are the calls that the others are
  /// still giving up: late messages of these may come, and must be dropped.
  std::vector<CallId> nodes_back(const std::vector<NodeId>& nodes, std::uint32_t machine = 0);
  /// No call of the session is under way: its next one may get any machine.
  void session_ended(std::uint64_t session) { choice_.session_ended(session); }
  /// See `ReplicaChoice`.
  std::vector<SessionMove> take_moves() { return choice_.take_moves(); }
  /// A message for the entry. The reader gives it back to the pools afterwards.
  void receive(Message& message, Effects& effects);
  /// Ends what is past its deadline.
  void tick(Instant now, Effects& effects);
  /// When `tick` is due; Instant::max() when nothing is.
  Instant next_deadline();

  std::size_t calls() const { return calls_.size(); }
  bool knows(const CallId& call) const {
    return call.home == home_ && calls_.contains(call.number);
  }
  /// It waits only for the nodes to let go of it.
  bool is_given_up(const CallId& call) const {
    return knows(call) && (*calls_.find(call.number))->aborting;
  }

 private:
  using Number = std::uint64_t;  // of a call of this home

  struct OutputRecord {
    explicit OutputRecord(const Pools& pools) : queue(pools.mix, pools.waiting_max) {}
    OrderQueue queue;
    std::vector<PayloadRef> waiting;  // index = the queue's item
    std::vector<std::uint32_t> free;
    std::uint32_t keep(PayloadRef value);
    void clear();
  };
  struct CallRecord {
    std::uint64_t session = 0;
    Number next = 0;      // of the same session; 0: none
    Number previous = 0;  // likewise
    std::vector<PayloadRef> inputs;
    CreditSum returned;
    std::vector<OutputRecord> outputs;
    std::unique_ptr<Failure> failure;
    Warnings warnings;
    Untold untold;  // what nodes told of outputs and fields that do not come
    Instant arrived{};
    Instant allowed{};
    Instant deadline{};
    std::int64_t delivered = 0;
    bool started = false;
    bool cancelled = false;
    bool aborting = false;
    std::vector<NodeId> pending;  // aborting: who has not said yet that nothing is left
    void clear();
  };
  /// A node whose machine is lost.
  struct Away {
    NodeId node = 0;
    std::uint32_t machine = 0;  // read where the node has several
    friend auto operator<=>(const Away&, const Away&) = default;
  };
  /// The calls of one session, first in, first out.
  struct SessionQueue {
    Number first = 0;
    Number last = 0;
  };

  CallId refuse(Number id, std::uint64_t session, Effects& effects) const;
  /// Its session's turn has come.
  void begin(Number id, CallRecord& call, Effects& effects);
  void start(Number id, CallRecord& call, Effects& effects);
  void receive_frame(Message& message, CallRecord& call, Effects& effects);
  /// What waited for what has just come.
  void deliver_waiting(Number id, CallRecord& call, std::uint16_t output, Effects& effects);
  void deliver(Number id, CallRecord& call, std::uint16_t output, PayloadRef value,
               Effects& effects);
  void spread_cancel(Number id, CallRecord& call, Effects& effects);
  void fail(Number id, CallRecord& call, Failure failure, bool cancel, Effects& effects);
  void abort(Number id, CallRecord& call, Effects& effects);
  void drop(Number id, CallRecord& call, Effects& effects);
  void fail_lost(Number id, CallRecord& call, Effects& effects);
  /// Calls that wait to start, and would use what is lost.
  void fail_waiting(Effects& effects);
  /// The call would use the node there.
  bool concerns(const Away& away, Number id) const;
  bool is_away(NodeId node, Number id) const;
  /// The first node of the call whose machine is lost; the entry: none.
  NodeId first_away(Number id) const;
  /// True when nothing of the call is left.
  static bool is_done(const CallRecord& call) {
    return call.aborting ? call.pending.empty()
                         : (call.started ? call.returned.complete() : call.failure != nullptr);
  }
  void finish_if_done(Number id, Effects& effects);
  /// All credit is back: so must be every share of the outputs, or somebody kept some.
  void check_outputs(Number id, CallRecord& call, Effects& effects);
  /// Ends the call when nothing of it is left. The result is a call that has started in its place.
  Number finish_one(Number id, Effects& effects);
  /// Those that remember something of it: of each call, or of this one (`silent_`). `all`: also
  /// those that only know that it was cancelled, or given up.
  void tell_ended(Number id, std::uint64_t session, bool all, Effects& effects);
  /// The call that is next to end by its deadline; 0: none.
  Number first_timed();
  void add_due(Instant deadline, Number id);
  /// Every call below has ended.
  Number floor() const {
    return oldest_ == order_.size() ? first_number(next_call_) : order_[oldest_];
  }
  /// The least that the call with this serial number may have.
  Number first_number(std::uint64_t serial) const { return serial * choice_.replicas().choices(); }
  CallId name_of(Number id) const { return {id, home_}; }
  CallRecord& record_of(Number call) { return **calls_.find(call); }
  CallRecord& new_record(Number call);
  void forget(Number call);
  /// Takes the call out of its session's queue. The result is the first of those that are left.
  Number leave_queue(const CallRecord& record);

  const Plan& plan_;
  Pools& pools_;
  const Origin home_;
  ReplicaChoice choice_;
  Splitter splitter_;
  Shares nothing_;  // is what triggers the entry
  Holding entry_;   // of the entry's activation, for as long as `start` runs
  Table<CallRecord*> calls_;
  FreeList<CallRecord> free_calls_;
  Table<SessionQueue> sessions_;
  std::vector<Number> order_;  // of arrival, from `oldest_`; some have ended
  std::size_t oldest_ = 0;
  struct Due {
    Instant deadline{};
    Number call = 0;
    friend auto operator<=>(const Due&, const Due&) = default;
  };
  std::vector<Due> due_;         // a heap, the next first; some have ended
  std::vector<NodeId> keepers_;  // nodes that remember something of each call to its end
  std::vector<NodeId> silent_;   // and of the call that ends now
  std::vector<Away> away_;       // sorted
  bool waits_for_starts_ = false;
  std::deque<Number> ready_;     // then: calls whose turn has come; some have ended
  bool lost_any_ = false;        // then late messages of calls that were given up may come
  std::uint64_t next_call_ = 1;  // its serial number
};

}  // namespace sluice
