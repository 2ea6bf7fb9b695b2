// What the simulation knows and the engines do not: everything. It checks the invariants with it.
//
// It keeps every activation with the yield that it descends from, and everything of a call that is
// running or on its way. Numbers C1 to C31 are those of docs/SIMULATION.md; C6 is a refusal of
// `OrderQueue`, C17 is two runs, C23 to C25 are the cluster's, C29 to C31 of `SpreadCheck`.
// Thread: one. Source: docs/SIMULATION.md.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/coordinator.h"
#include "graph/effect.h"
#include "graph/plan.h"
#include "graph/script.h"
#include "runtime/sim/few.h"
#include "runtime/sim/token.h"

namespace sluice::sim {

using ActivationNumber = std::uint32_t;
using FrameNumber = std::uint32_t;
using Flight = std::uint64_t;  // of a message: its call, and below that which of the call's it is
inline constexpr Flight no_flight = ~Flight{0};  // of a call that is a stranger here

class Oracle {
 public:
  Oracle(const Plan& plan, const Script& script);

  void call_arrived(std::size_t call, std::uint64_t session);
  /// What its home calls it, and how long it may take.
  void call_named(std::size_t call, const CallId& id, Instant now, Instant allowed);
  /// It was let in, or has ended: its home has as many as the workflow takes, and no more.
  void check_admitted(std::size_t call);
  /// The call's index in the script.
  std::size_t call_of(const CallId& id) const;
  /// The entry's activation of a call: what its first frame descends from.
  ActivationNumber entry_of(std::size_t call) const { return calls_[call].entry; }

  /// An engine has asked for a start. The result names the activation from now on. `fenced`: its
  /// machine counts as lost, and has not heard of it.
  ActivationNumber started(const StartActivation& start, const Firing& firing, Token identity,
                           bool fenced = false);
  FrameNumber yielded(ActivationNumber activation);
  void failed(ActivationNumber activation);
  void ended(ActivationNumber activation);

  /// An engine says that what came for a node that drops (`on_full`) will not run.
  void not_started(const NotStarted& inputs);

  Flight sent(const Message& message);
  /// It was applied. False when it had arrived or was lost before.
  bool arrived(Flight flight);
  /// It is gone for good, and what credit it had: its call has to be given up.
  void lost(Flight flight);

  void delivered(const DeliverOutput& output);
  void cancelled(std::size_t call) { calls_[call].cancelled = true; }
  void call_ended(const EndCall& end, Instant now);
  /// The call lost a machine: its end is no longer exact, only certain.
  void gave_up(std::size_t call) { calls_[call].given_up = true; }
  /// The call's home is gone: nobody will tell its end, and nothing of it may stay.
  void orphaned(std::size_t call);
  /// When nothing happens any more: what runs of such calls.
  void check_orphans();

  /// After each event: a call of which nothing exists has ended, and no queue is too long.
  /// `longest`: by node that drops, how many waited in one call; raised where it is given.
  void check_alive(const std::vector<std::size_t>& touched,
                   std::vector<std::size_t>* longest = nullptr);
  /// What is left of a call, in words.
  std::string remains(std::size_t call) const;
  void violated(std::string what);
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct ActivationFact {
    std::uint32_t call = 0;
    NodeId node = 0;
    ActivationNumber parent = 0;  // of the frame that triggered it; of a join, the root's
    std::uint32_t parent_yield = 0;
    std::uint32_t yields = 0;
    std::uint16_t group = 0;
    std::uint32_t replica = 0;  // of a node that runs on each
  };
  struct FrameFact {
    ActivationNumber activation = 0;
    std::uint32_t yield = 0;
  };
  struct Pass {
    ActivationNumber activation = 0;
    std::uint32_t yield = 0;
    bool found = false;
    bool operator==(const Pass&) const = default;
  };
  struct Flying {
    std::uint32_t number = 0;  // of its call's messages
    FrameNumber frame = 0;     // 0: it has none
    EdgeId edge = 0;
    Message::Kind kind = Message::Kind::frame;
  };
  /// A set of inputs that has begun on some of a node's replicas. C28.
  struct HalfDone {
    NodeId node = entry_node;  // none
    std::uint16_t group = 0;
    std::uint32_t replicas = 0;  // that have begun with it
    Token inputs = 0;
  };
  /// What a call has fired already.
  struct Identities {
    /// False when it is there.
    bool insert(Token token);

    static constexpr std::size_t many = 64;
    std::vector<Token> list;
    std::unique_ptr<std::unordered_set<Token>> table;  // behind `many`
  };
  struct Queue {
    std::vector<FrameNumber> frames;  // as they came
    std::uint64_t dropped = 0;
  };
  /// Of many calls at once most are in no cache: what each event asks for stands together.
  struct CallFacts {
    std::uint32_t messages = 0;  // on their way, but for those that tell its end
    std::uint32_t sent = 0;
    bool started = false;
    bool ended = false;
    bool cancelled = false;
    bool given_up = false;
    bool orphaned = false;
    bool failed = false;
    Few<Flying, 4, &Flying::number> flying;
    Few<ActivationNumber, 4> running;
    std::uint64_t settled = 0;
    std::uint64_t frames = 0;
    std::uint64_t starts = 0;
    ActivationNumber entry = 0;
    std::uint64_t session = 0;
    std::size_t home = 0;
    Identities identities;
    HalfDone half_done;
    std::vector<ActivationNumber> last_release;  // by node, once there was one: C5
    std::vector<FrameNumber> last_delivery;      // by output, likewise: C5
    Instant arrived{};
    Instant allowed{};
    std::vector<NodeId> failures;
    /// By node that drops, once a frame came for one: which have not begun, and how many were
    /// dropped. C27.
    std::vector<Queue> queues;
  };
  /// The calls of one home in one life.
  struct Home {
    Origin origin;
    std::vector<std::uint32_t> calls;  // by number: index in the script
    std::int64_t open = 0;             // that have not ended
  };

  /// A deadline that was not over, or inputs that were not too old: C21.
  void check_times(const EndCall& end, const CallFacts& call, Instant now);
  /// The first call of the session that has not ended.
  std::size_t first_open(std::uint64_t session);
  Pass pass_of(FrameNumber frame, NodeId root) const;
  /// Below 0: `a` stands before `b`; 0: the order is not defined between them.
  int compare(FrameFact a, FrameFact b) const;
  /// The same of two activations whose inputs descend from one yield: those of one set of inputs
  /// stand in the order of their replicas.
  int compare_replicas(const ActivationFact& a, const ActivationFact& b) const;
  void check_join(const StartActivation& start, const PlanGroup& group, const CallFacts& call,
                  FrameFact& parent);
  void check_count(const StartActivation& start, const PlanGroup& group);
  void check_release(const StartActivation& start, ActivationNumber self, CallFacts& call);
  void check_replicas(const StartActivation& start, CallFacts& call);
  void check_half_done(std::size_t call);
  /// True when each frame that comes for the node is a set of inputs, of which it drops some.
  bool drops_frames(NodeId node) const;
  /// A node that drops runs no more than it may. C27.
  void check_at_once(const StartActivation& start, const CallFacts& call);
  void came(NodeId node, FrameNumber frame, CallFacts& call);
  /// When an event is over: no more waits for such a node than it says.
  void check_waiting(std::size_t call, std::vector<std::size_t>* longest);
  void check_drops(const EndCall& end, const CallFacts& call);
  std::vector<bool> upstream_of(const Collector& join) const;
  std::string where(const StartActivation& start) const;

  const Plan& plan_;
  const Script& script_;
  std::vector<ActivationFact> activations_;
  std::vector<FrameFact> frames_;
  std::vector<CallFacts> calls_;
  std::vector<Home> homes_;
  CallFacts& facts_of(Flight flight) { return calls_[flight >> 32U]; }
  /// Null when it has arrived or is lost already: the sender of a link keeps it for longer.
  const Flying* find(Flight flight);
  std::unordered_map<std::uint64_t, std::deque<std::size_t>> sessions_;  // calls that may be open
  std::vector<std::vector<bool>> upstream_;  // by collector; empty: not a join
  std::vector<std::string> violations_;
};

}  // namespace sluice::sim
