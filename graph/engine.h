// One node's control flow: from frames that arrive to activations that start.
//
// Direct groups start on each frame; joins collect a bucket per scope; count groups collect over
// the call; a session node queues and releases in logical order. Pure: never blocks, never fails,
// reads no clock. Thread: one loop. Bounds: a record per waiting or running activation, open bucket
// and (in a loop) call. Source: omni-flow, sections 3.2, 3.4; corrections in docs/CONTROL_FLOW.md.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/bucket.h"
#include "graph/call_news.h"
#include "graph/effect.h"
#include "graph/frame.h"
#include "graph/order_queue.h"
#include "graph/plan.h"
#include "graph/split.h"
#include "graph/table.h"

namespace sluice {

/// How many things a node's engine has in hand: all zero when no call is running.
struct EngineCounts {
  std::size_t activations = 0;
  std::size_t buckets = 0;
  std::size_t calls = 0;
};

class Engine {
 public:
  /// Requires: `self` is not the entry. Borrows the plan and the pools.
  Engine(const Plan& plan, NodeId self, Pools& pools);

  /// A message for this node. The reader gives it back to the pools afterwards.
  void receive(Message& message, Effects& effects);
  /// The role yielded `frame`, fresh from the pools. `last`: the activation has ended well with it
  /// (in one step, for all its credit leaves with the frame; a later `ended` is ignored).
  void yielded(ActivationId activation, Frame* frame, bool last, Effects& effects);
  /// The role ended, well (null) or not.
  void ended(ActivationId activation, std::unique_ptr<Failure> failure, Effects& effects);
  /// Sends what the role warns of to the call's home, before what may take its last credit along.
  void warn(ActivationId activation, std::vector<std::string> warnings, Effects& effects);

  /// The moment from now on, for ages and deadlines. Never goes back.
  void advance(Instant now) { now_ = now; }
  /// Ends what is past the node's deadline. Due at `next_deadline`.
  void tick(Effects& effects);
  /// Instant::max() when nothing is due.
  Instant next_deadline() const {
    return first_due_ == nullptr ? Instant::max() : first_due_->deadline;
  }

  /// For an engine in the place of one that was lost: messages of these calls are late.
  void forget(const std::vector<CallId>& given_up);
  /// This home is gone, as are its calls of this life and those before: drops all there is of them.
  void home_lost(Origin home, Effects& effects);

  /// False when the activation has ended already: a late event.
  bool knows(ActivationId activation) const { return running(activation) != nullptr; }
  EngineCounts counts() const;

 private:
  enum class State : std::uint8_t { free, waiting, running };
  static constexpr std::uint32_t unnumbered = 0xffffffff;
  struct Record {
    State state = State::free;
    std::uint32_t index = unnumbered;  // in `records_`, from its first use on
    std::uint32_t generation = 0;
    std::uint16_t group = 0;
    CallId call;
    std::uint64_t session = 0;
    Credit credit;                  // until it starts
    Shares shares;                  // while it waits
    Holding holding;                // while it runs
    std::vector<Arrival> arrivals;  // in logical order
    std::vector<InputValue> inputs;
    std::vector<std::uint16_t> iterations;
    std::vector<std::uint32_t> path;  // where the plan asks for it
    Instant born{};                   // of the oldest input
    std::uint64_t yielded = 0;        // the outputs that it has yielded so far
    Instant deadline = Instant::max();
    Record* earlier = nullptr;  // of those with a deadline, in the order they started
    Record* later = nullptr;
    Record* next_of_call = nullptr;  // in its chain of `by_call_`
    Record** of_call = nullptr;      // what points to it there
  };
  /// Waits at a node that drops the oldest when too many do.
  struct Waiting {
    Record* record = nullptr;
    Share place;  // of a session node, in its order
  };
  /// What a node remembers of a call that needs it: see the coordinator's `tell_ended`.
  struct CallRecord {
    OrderQueue queue;
    std::vector<Waiting> waiting;  // `drop_oldest`: those that may be dropped, as they came
    CountBucket count;
    Credit credit;
    std::uint64_t session = 0;
    std::uint64_t released = 0;
    std::uint32_t running = 0;
    std::int64_t came = 0;  // where frames are counted: for so many activations
    CallNews news;
    void clear();
  };
  struct Floor {
    Origin home;
    std::uint64_t number = 0;
  };
  /// True when more waits here than may, and the message would add to it.
  bool is_full(const Message& message) const;
  void receive_frame(Message& message, Effects& effects);
  void receive_settled(Message& message, Effects& effects);
  void receive_cancel(Message& message, Effects& effects);
  void cancel_call(const CallId& call, Effects& effects);
  void receive_abort(Message& message, Effects& effects);
  void receive_call_ended(const Message& message, Effects& effects);
  void say_aborted(const CallId& call, std::uint64_t session, Effects& effects);
  /// Buckets, queues and counts of calls that are given up.
  template <typename Given>
  void drop(Given is_given_up);
  template <typename Given>
  void drop_buckets(Given is_given_up);
  void recycle_call(const CallId& call);
  CallRecord& record_of(const CallId& call) { return **calls_.find(call); }
  Record& new_record(const CallId& call, std::uint64_t session, std::uint16_t group);
  void free_record(Record& record);
  /// Those of a call that wait or run, in the order of their index. Valid until the next use.
  const std::vector<Record*>& records_of(const CallId& call);
  void index_by_call();
  Record*& chain_of(const CallId& call) {
    return by_call_[spread(call, pools_.mix) >> 32U & (by_call_.size() - 1)];
  }
  void add_to_call(Record& record);
  static void remove_from_call(Record& record);
  void add_due(Record& record);
  void remove_due(Record& record);
  void continue_path(Record& record, const std::vector<std::uint32_t>& path) const;
  /// Everything it waits for is there: run it, or queue it. Takes the shares.
  void ready(Record& record, Shares& shares, Effects& effects);
  /// How many activations run now, one a replica. 0: it may not (cancelled, too old, a limit).
  std::uint32_t start(Record& record, Shares& shares, std::uint64_t sequence, Effects& effects);
  /// Makes `next` the next replica's: on the same inputs, with 1 / `left` of what `record` holds.
  void fork(Record& record, Record& next, std::uint32_t left);
  void run(Record& record, std::uint32_t replica, Effects& effects);
  /// It has ended: what follows from that.
  void finish(Record& record, std::unique_ptr<Failure> failure, Effects& effects);
  void close(Record& record, std::unique_ptr<Failure> failure, Effects& effects);
  /// To the caller, with half of the record's credit.
  void tell(Record& record, Notice notice, Effects& effects);
  void warn_stopped(Record& record, std::string warning, Effects& effects);
  /// It ends well: tells which outputs it left out, if that is news.
  void note_silent(Record& record, Effects& effects);
  void fill_inputs(Record& record, const PlanGroup& group);
  /// True when an input is older than the node wants. Says so to the caller.
  bool is_stale(Record& record, Effects& effects);
  std::unique_ptr<Failure> merge_iterations(Record& record) const;
  /// True once, when more comes in a call than `limits: frames`.
  bool is_one_too_many(const Record& record);
  void tell_too_many(Record& record, Effects& effects);
  /// Null: of every field came as many frames as the role reads.
  std::unique_ptr<Failure> check_frames(const Record& record, const PlanGroup& group) const;
  /// The activation's record; null when it has ended already.
  Record* running(ActivationId activation) const {
    if (activation.index >= records_.size()) return nullptr;
    Record* record = records_[activation.index];
    const bool same =
        record->generation == activation.generation && record->state == State::running;
    return same ? record : nullptr;
  }
  /// Its turn has come in its session's queue.
  void release(CallRecord& call, Record& record, Shares& shares, Effects& effects);
  void pump(const CallId& id, CallRecord& call, Effects& effects);
  /// Of a node that drops and has no order: runs it, or lets it wait.
  void line_up(CallRecord& call, Record& record, Shares& shares, Effects& effects);
  /// Starts what waits there, as far as it may.
  void pump_line(CallRecord& call, Effects& effects);
  /// It begins, so it can be dropped no more.
  static void leave_line(CallRecord& call, const Record& record);
  /// Tells who watches that it will not run.
  void note_not_started(const Record& record, bool dropped, Effects& effects) const;
  /// Drops the oldest while more wait than the node says.
  void drop_oldest(CallRecord& call, Effects& effects);
  void flush_credit(const CallId& call, CallRecord& record, Effects& effects);
  /// Adds to what is held; what does not fit goes back.
  void keep_credit(Credit& held, const Message& message, Effects& effects);

  /// Of a bucket that can never fire: what to tell, if it is news.
  Lost note_lost(const Bucket& bucket, std::uint16_t group, std::uint64_t missing);
  /// The first run in a call: takes back what was told before.
  void note_run(Record& record, Effects& effects);
  /// The bucket of the share's scope; null (and refused) when a wrong peer says another join's.
  Bucket* bucket_of(const Share& share, const Message& message, CollectorId collector,
                    Effects& effects);
  void close_bucket(Bucket& bucket, Effects& effects);
  void recycle_bucket(const ScopeOfCall& key);
  void advance_count(const CallId& id, CallRecord& call, const PlanGroup& group, Effects& effects);
  /// True when nothing is left to say at the end of the stream: all credit is on its way.
  bool fire_count(const CallId& id, CallRecord& call, const PlanGroup& group, bool ended,
                  Effects& effects);
  void end_count(const CallId& id, CallRecord& call, const PlanGroup& group, Effects& effects);
  /// At the end of a count's stream: what its caller should hear.
  Notice count_notice(const CallRecord& call, const PlanGroup& group) const;
  bool is_cancelled(const CallId& call) const {
    return !cancelled_.empty() && cancelled_.contains(call);
  }
  bool is_given_up(const CallId& call) const {
    return is_below_floor(call) || (!aborted_.empty() && aborted_.contains(call));
  }
  bool is_below_floor(const CallId& call) const {
    for (const Floor& floor : floors_)
      if (floor.home.machine == call.home.machine)
        return floor.home.incarnation == call.home.incarnation
                   ? call.number < floor.number
                   : call.home.incarnation < floor.home.incarnation;
    return false;
  }
  /// Calls of this home below the number have ended, and so have those of its earlier lives.
  void raise_floor(Origin home, std::uint64_t number);
  CallRecord& call_record(const CallId& call, std::uint64_t session);

  const Plan& plan_;
  const PlanNode& node_;
  Pools& pools_;
  Splitter splitter_;
  std::vector<Record*> records_;  // all that were made
  FreeList<Record> free_records_;
  /// Chains of records by their call, once a call was cancelled while there were many records: a
  /// scan for each would take as long as all calls times all records.
  std::vector<Record*> by_call_;
  std::vector<Record*> found_;
  Record* first_due_ = nullptr;  // all have the same time to run, so the first started ends first
  Record* last_due_ = nullptr;
  Table<Bucket*, ScopeOfCall> buckets_;
  FreeList<Bucket> free_buckets_;
  Table<CallRecord*, CallId> calls_;
  FreeList<CallRecord> free_calls_;
  Table<bool, CallId> cancelled_;
  Table<std::size_t, CallId> aborted_;  // -> its activations that still run
  std::vector<Floor> floors_;           // of each home that has said one
  std::uint32_t next_replica_ = 0;
  bool joins_ = false;  // a group of the node is a join
  CallId last_run_;     // the call whose run was noted last
  CallId counted_of_;   // the call whose frames were counted last
  CallRecord* counted_ = nullptr;
  Instant now_{};
};

}  // namespace sluice
