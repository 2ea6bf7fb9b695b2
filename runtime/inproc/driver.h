// Drives one workflow's engines: turns what callers and roles say into events, and what engines ask
// for into work of lanes and words to callers.
//
// There is no thread for it. Whoever has news while nobody drives handles it on the spot, and what
// others announce meanwhile; after `events_max` of theirs it hands over to the clock's thread. So a
// role's frame reaches a colocated role without another thread, and a call takes two wake-ups.
// Thread: news from any; the rest belongs to whoever drives. Owns: itself while roles still run.
// Source: flat combining (Hendler et al., 2010).
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "graph/table.h"
#include "runtime/inproc/activation.h"
#include "runtime/inproc/call_state.h"
#include "runtime/inproc/call_watch.h"
#include "runtime/inproc/event.h"
#include "runtime/inproc/loop.h"
#include "runtime/inproc/node_place.h"
#include "runtime/inproc/peers.h"
#include "runtime/inproc/recorder.h"
#include "runtime/inproc/sessions.h"
#include "runtime/mailbox.h"

namespace sluice {

class Driver final : public std::enable_shared_from_this<Driver>,
                     private LoopHost,
                     private LoopPort,
                     private RoleListener {
 public:
  Driver(std::shared_ptr<const Plan> plan, std::shared_ptr<Sessions> sessions,
         std::vector<NodePlace> places, const RunnerOptions& options,
         std::unique_ptr<Peers> peers = nullptr);
  ~Driver();

  /// Starts the clock's thread. Errors: exhausted.
  Result<void> run();
  /// Ends all calls for their callers, who hear why, tells what runs, and starts nothing more. Not
  /// from an observer.
  void close(const std::string& why = "the runner was destroyed before the call ended");

  /// Queues a call. `inputs` by the plan's input index.
  void start(const Ref<CallState>& call, std::vector<PayloadRef> inputs);
  void cancel(const Ref<CallState>& call);
  /// News of another machine, or from it.
  void hear(std::unique_ptr<PeerEvent> event);
  /// None of this home's session's calls is under way: the other machines may forget it.
  void session_ended(std::uint64_t session);
  RunnerCounts counts() const;
  Trace trace() const { return recorder_ ? recorder_->trace() : Trace{}; }
  const Plan& plan() const { return *plan_; }

 private:
  /// What goes to a lane when the engines have been told everything.
  struct Outgoing {
    Lane* lane = nullptr;
    LaneActivation* newest = nullptr;
    LaneActivation* oldest = nullptr;
  };
  struct OpenCall {
    Ref<CallState> call;
    bool given_up = false;
  };

  void announce(std::unique_ptr<Event> event);
  void announce(Event::Kind kind, const Ref<CallState>& call);
  /// True when nobody drives: this thread does now.
  bool begin_to_drive() { return announced_.fetch_add(1) == 0; }
  /// Until nothing is announced. `done`: of the announced, those that were handled already.
  void drive(std::size_t done);
  /// False when the clock's thread is this one.
  bool hand_over(std::size_t done);
  /// What the engines ask for, until they ask for nothing.
  void run_engines();
  void handle(Event& event);
  void give_back(Event& event);
  void advance();
  void handle_call(Event& event);
  void handle_yielded(LaneActivation& activation, YieldedFields& fields, bool last);
  void handle_ended(LaneActivation& activation, std::unique_ptr<Error> error, bool released);
  void handle_give_up(Event& event);
  void handle_close();
  void recycle(LaneActivation& activation);
  /// For windows it is over: it ended or was cancelled, whenever its role returns. Once.
  void let_go(LaneActivation& activation);
  void release_sessions();
  void flush();
  /// The caller hears now how it ended; what is left of it has to go.
  void end_early(OpenCall& open, CallOutcome outcome);

  void start(const StartActivation& start) override;
  void cancel(const CancelActivation& cancel) override;
  void deliver(const DeliverOutput& output) override;
  void end(EndCall& end) override;
  void not_started(const NotStarted& inputs) override { recorder_->not_started(inputs); }

  void yielded(LaneActivation& activation, YieldedFields& fields, bool last) override;
  void ended(LaneActivation& activation, std::unique_ptr<Error> error, bool released) override;
  void released(LaneActivation& activation) override;
  bool may_yield(const LaneActivation& activation) const override {
    return !peers_ || peers_->gates.is_open(activation.place().node->id);
  }

  // The side of several machines: driver_peers.cpp.
  Ref<Buffer> make_shared(std::size_t size, std::span<const std::uint32_t> readers) override;
  void send(std::uint32_t machine, const Message& message) override;
  wire::Lender* lender() override;
  void took(Origin from, EdgeId edge, std::size_t bytes) override;
  void refused(const Refusal& refusal) override;
  /// Gives back what was taken, and lets go on what waits for a window that is open now. True when
  /// a call has started.
  bool pass_windows();
  void take_back(Origin from, const Control& control);
  void forget_windows(std::uint32_t machine);
  void tell(std::uint32_t machine, const Control& control);
  void tell_all(const Control& control);
  void tell_session(std::uint32_t machine, const SessionId& session);
  void handle_peer(std::unique_ptr<PeerEvent> event);
  void handle_message(std::unique_ptr<PeerEvent> event);
  void handle_control(Origin from, const Control& control);
  void take_welcome(Origin from, const Control& control);
  void enter_if_let_in();
  void take_session(Origin from, const Control& control);
  /// Empty, or why the sender cannot name this session.
  std::string session_problem(Origin from, const Control& control) const;
  void take_give_up(Origin from, const Control& control);
  void take_session_ended(Origin from, const Control& control);
  /// At the keeper.
  void handle_joined(Origin life, std::uint32_t process);
  void take_joined(Origin life, std::uint32_t process);
  /// Another process of the machine has nothing of what an earlier one held of sessions.
  void note_process(std::uint32_t machine, std::uint32_t process);
  /// Calls of this home that the others still give up.
  std::vector<std::uint64_t> let_back(Origin life);
  void handle_lost(Origin life, const std::string& why);
  void forget_home(Origin home);
  /// Calls of this home that used the machine end for their callers.
  void end_calls_on(std::uint32_t machine);
  void handle_session_ended(std::uint64_t session);
  void session_moved(const SessionMove& move, const CallState& call);
  /// A role there that keeps something of sessions takes part in the call.
  bool keeps_session(std::uint32_t machine, const CallId& call) const;
  /// Its call is the first one behind the loss of a process that may have held something of it.
  void tell_lost_there(const CallState& call);
  void receive(const PeerEvent& event);
  void hold(std::unique_ptr<PeerEvent> event);
  /// What was held back of machines that are there now.
  void receive_held();
  void refuse(Origin life, const std::string& why);
  /// Calls that cannot go on: ends them here, or has their home end them.
  void end_broken();
  Error away(NodeId node, const CallId& call) const;
  /// What roles know it by, on every machine.
  std::uint64_t number_of(const CallId& call) const;
  const Ref<CallState>& call_of(const StartActivation& start);
  void guest_left(const LaneActivation& activation);
  void pass_warnings(const LaneActivation& activation);

  // What was said in sessions: driver_histories.cpp.
  void give_to_lane(LaneActivation& activation);
  /// True: its home is asked where the session goes on.
  bool waits_for_history(LaneActivation& activation, const StartActivation& start);
  void go_on_here(LaneActivation& activation, std::uint64_t session);
  static void warn_of(LaneActivation& activation, const Error& error);
  void release_waiting(const std::function<bool(const SessionId&)>& is_over);
  void release_waiting(LaneActivation& cancelled);
  /// Before the activation's end: so its home has heard it before the call can end.
  void tell_histories(LaneActivation& activation);
  void take_history(Origin from, const Control& control);
  void take_history_kept(Origin from, const Control& control);
  void take_history_dropped(Origin from, const Control& control);
  void take_history_told(Origin from, const Control& control);
  void take_history_asked(Origin from, const Control& control);
  void add_history(const SessionId& session, NodeId node, Origin from, std::uint64_t call,
                   ToldHistory told);
  void warn_of_return(const HistoryStore::Held& before, Origin now, const CallState& call);
  std::string end_of_move(const SessionMove& move) const;
  /// What was said in the session on that machine, or why it is not known, is kept here.
  bool has_history(std::uint64_t session, std::uint32_t machine) const;
  void roll_back_histories(const CallState& call, std::uint64_t session);
  void end_histories(std::uint64_t session);

  // The clock's side: driver_clock.cpp.
  void tick();
  bool look(std::unique_lock<std::mutex>& lock);
  /// The clock's thread drives and does not come to an end: what is due by now.
  void look_between();
  void decide(CallWatch::What what, const Ref<CallState>& call);
  void set_clock();
  void wake_clock();
  void forget(const CallState& call);
  Error stopped(const CallState& call) const;
  CallOutcome overdue(const CallState& call, NodeId still_running) const;

  const std::shared_ptr<const Plan> plan_;
  const std::shared_ptr<Sessions> sessions_;
  const std::vector<NodePlace> places_;  // index = NodeId
  const std::chrono::milliseconds grace_;
  const std::unique_ptr<Recorder> recorder_;  // null: nobody wants a trace

  // News.
  std::atomic<std::size_t> announced_{0};  // and not yet handled
  Mailbox<Event> events_;

  // Whoever drives.
  const std::unique_ptr<Peers> peers_;  // null: all nodes are here
  Loop loop_;
  FreeList<LaneActivation> activations_;
  std::vector<std::vector<LaneActivation*>> running_;  // by node, then the activation's index
  std::vector<Outgoing> outgoing_;                     // one per lane
  std::vector<std::uint16_t> filled_;                  // of them
  Table<OpenCall, CallId> calls_;
  std::size_t in_hand_ = 0;        // activations that are not released
  std::shared_ptr<Driver> alive_;  // while there are any
  bool closing_ = false;
  std::atomic<bool> closed_{false};
  std::shared_mutex lends_mutex_;  // held while a role is given memory of the port's
  bool lends_ = true;              // until the driver closes
  std::atomic<std::size_t> calls_open_{0}, given_up_{0}, activations_open_{0};
  std::atomic<std::uint64_t> dropped_{0}, refused_{0};

  // The clock.
  mutable std::mutex clock_mutex_;
  std::condition_variable clock_changed_;
  CallWatch watch_;
  std::map<std::uint64_t, Ref<CallState>> watched_;
  Instant node_due_ = Instant::max();
  Instant clock_at_ = Instant::max();  // when it looks next
  bool take_over_ = false;             // somebody has driven for long enough
  bool stop_ = false;
  std::uint64_t next_key_ = 1;
  std::vector<CallWatch::Decision> decisions_;
  std::thread clock_;
};

}  // namespace sluice
