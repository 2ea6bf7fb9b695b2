// What one workflow's driver knows of the other machines: who is there, which sessions they were
// told of, and what has come too early.
//
// Thread: whoever drives.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/table.h"
#include "runtime/inproc/call_state.h"
#include "runtime/inproc/ended_sessions.h"
#include "runtime/inproc/known_sessions.h"
#include "runtime/inproc/yield_gates.h"
#include "runtime/let_in.h"
#include "runtime/membership.h"
#include "runtime/node/port.h"
#include "runtime/windows.h"

namespace sluice {

class LaneActivation;

/// A call that cannot go on.
struct BrokenCall {
  CallId call;
  NodeId node = entry_node;
  Error error;
};

/// A frame that came from another machine and is with its engine.
struct TakenFrame {
  std::uint32_t from = 0;
  EdgeId edge = 0;
  std::size_t bytes = 0;
};

struct Peers {
  Peers(const Plan& plan, DriverPlace at)
      : place(std::move(at)),
        windows(plan, place.stops, place.window),
        gates(plan.nodes.size()),
        lives(place.where.machines, false),
        wrong(place.where.machines),
        let_in(others_of(place.where)),
        told(place.where.machines),
        names(place.where.machines, place.where.self.machine, place.sessions_max),
        why(place.where.machines, "it has not joined yet"),
        sessions_at_loss(place.where.machines),
        processes(place.where.machines),
        lost_there(place.where.machines) {
    lives.joined(place.where.self);
  }

  /// A call of another machine, while something of it runs here.
  struct Guest {
    Ref<CallState> call;
    std::uint64_t session = 0;
    std::size_t activations = 0;
  };

  /// Of a session in a role: whether its home has said, in this life, where it goes on.
  struct Asked {
    bool is_settled = false;
    std::vector<LaneActivation*> waiting{};
  };

  const Residence& where() const { return place.where; }
  /// Homes that let machines in, beside the keeper.
  static std::vector<bool> others_of(const Residence& where) {
    std::vector<bool> homes = where.homes;
    for (const std::uint32_t machine : {where.keeper, where.self.machine})
      if (machine < homes.size()) homes[machine] = false;
    return homes;
  }

  DriverPlace place;
  Windows windows;
  YieldGates gates;
  std::vector<TakenFrame> taken;  // since windows were passed last
  std::vector<NodeId> ended;      // likewise: nodes of activations
  std::vector<NodeId> came;       // likewise: nodes of frames that had waited for whoever drives
  Membership lives;
  std::vector<std::uint32_t> wrong;        // by machine: lives up to this one broke the rules
  LetIn let_in;                            // not at the keeper
  std::vector<std::set<SessionId>> told;   // by machine: sessions whose names it has
  KnownSessions names;
  EndedSessions ended_sessions;
  std::vector<std::string> why;  // by machine: that it is not there
  /// At home, by machine that is away and was there: sessions below this may have left something.
  std::vector<std::uint64_t> sessions_at_loss;
  /// By machine: the first life of the process that it is; 0: not known yet.
  std::vector<std::uint32_t> processes;
  /// At home, by machine: sessions of which an earlier process of it may have held something, until
  /// their next call there.
  std::vector<std::set<std::uint64_t>> lost_there;
  std::uint64_t sessions = 0;  // at home: each that it has named has a smaller number
  Table<Guest, CallId> guests;
  std::map<std::pair<SessionId, std::uint32_t>, Asked> asked;  // by session and role's number
  std::vector<BrokenCall> broken;
  /// Of who is there: what the keeper has told here; at the keeper, what it has told.
  std::uint64_t news = 0;
  /// Messages whose senders know more than the keeper has told here yet.
  std::vector<std::unique_ptr<PeerEvent>> early;
  std::size_t early_bytes = 0;
};

}  // namespace sluice
