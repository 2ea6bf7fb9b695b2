// The shares and the credit that one activation holds, and how it hands them on.
//
// Each yield takes the next part of every share (so that a later yield stands later in the logical
// order) and divides it among the edges the frame takes; the end settles what is left (returns it
// to its collector). A share too small to divide becomes the parent of a fresh scope, credit is as
// fine as needed: no stream and no loop is too long. Source: weight throwing for termination
// detection (Mattern 1989), with the weights laid out on a line; docs/CONTROL_FLOW.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/effect.h"
#include "graph/frame.h"
#include "graph/plan.h"

namespace sluice {

/// Credit, and how much of it the next yield takes.
struct CreditInHand {
  Credit credit;
  std::uint64_t credit_whole = 0;  // its amount when it was taken or last refined
  std::uint64_t credit_first_yield = 0;
  std::uint64_t yields = 0;
  CallId call;
  std::uint64_t session = 0;
};

/// What an activation holds while it runs. Cleared by `Splitter::end`.
struct Holding : CreditInHand {
  struct Part {
    Share rest;                     // not yet handed on
    std::uint64_t whole = 0;        // of the scope in hand
    std::uint64_t first_yield = 0;  // yields before this scope was in hand
  };
  std::vector<Part> parts;  // index = the node's flow
};

/// What the caller should hear when something ends without running.
struct Notice {
  std::vector<std::string> warnings;
  std::unique_ptr<Failure> failure;
  Lost lost;
  bool empty() const { return warnings.empty() && !failure && lost.node == entry_node; }
};

/// Hands on shares at one node. Keeps scratch tables only.
class Splitter {
 public:
  Splitter(const Plan& plan, NodeId node, Pools& pools);

  /// Takes the shares of what triggered the activation and opens the scopes that begin here.
  /// `sequence` numbers the node's activations within the call, in release order.
  void begin(Holding& holding, Shares& held, Credit credit, const CallId& call,
             std::uint64_t session, std::uint64_t sequence);
  /// Before the first yield: moves the next `1 / left` of all that is held to `to`, so that what it
  /// yields stands before what is left. Of what begins here each has its own.
  void fork(Holding& holding, Holding& to, std::uint32_t left);
  /// Sends `frame` along every edge that takes it. `last`: nothing follows, so nothing is kept
  /// back.
  void yield(Holding& holding, const FrameRef& frame, bool last, Effects& effects);
  /// Half of the credit, for a message besides.
  static Credit half_credit(Holding& holding);
  /// Lets go of everything without a word: the call is given up everywhere.
  void abandon(Holding& holding) const;
  /// Settles what is left. A failure travels back with the credit. Nothing to do when the last
  /// yield took everything: then the holding has no credit.
  void end(Holding& holding, std::unique_ptr<Failure> failure, Effects& effects);
  /// Settles the shares of something that will never run: `shares` in the order of `collectors`.
  void settle(Shares& shares, const std::vector<CollectorId>& collectors, Credit credit,
              const CallId& call, std::uint64_t session, Notice notice, Effects& effects);
  /// Sends credit to the entry.
  void send_credit(Credit credit, const CallId& call, std::uint64_t session, Effects& effects);

 private:
  Message* send(const Edge& edge, const FrameRef& frame, const Holding& holding, Effects& effects);
  /// One edge takes the frame and no join opens: nothing is divided.
  void pass_on(Holding& holding, std::size_t edge, const FrameRef& frame, bool last,
               Effects& effects);
  /// Several edges, or joins that open here.
  void part(Holding& holding, const FrameRef& frame, bool last, Effects& effects);
  void open_joins(const Holding& holding, const Frame& frame);
  /// A branch, with the edge or the flow that opens the join by its place at this node.
  struct Way {
    bool through_join = false;
    std::uint16_t target = 0;    // in `edges_`, or in `open_scope_`
    std::uint16_t position = 0;  // as in `Branch`
  };
  /// Where a flow's share stands among the shares of one edge.
  struct Place {
    std::uint16_t flow = 0;
    std::uint16_t position = 0;
  };
  std::span<const Way> ways_of(std::size_t flow) const {
    return std::span(ways_).subspan(first_way_[flow], first_way_[flow + 1] - first_way_[flow]);
  }
  void list_ways();
  bool is_active(const Way& way) const {
    return way.through_join ? static_cast<bool>(open_scope_[way.target])
                            : message_of_edge_[way.target] != nullptr;
  }
  void divide(Holding& holding, std::size_t flow, bool last);
  /// What is in hand is too small to divide: it becomes the parent of a fresh scope.
  void open_finer(Holding::Part& part, const Holding& holding, CollectorId collector);
  /// Moves the yield's part of a share into `taken`, which holds none.
  void next_part(Holding::Part& part, const Holding& holding, std::size_t branches, bool last,
                 CollectorId collector, Share& taken);
  static void take_credit(CreditInHand& holding, Credit credit);
  /// True when no share is left in hand.
  bool is_spent(const Holding& holding) const;
  /// What the yield in hand gives away. `all`: no share is kept back, so no credit is. (What no
  /// branch took is settled by `end`, which then needs some to say so.)
  static std::uint64_t next_credit(const CreditInHand& holding, bool all);
  static void spread_credit(CreditInHand& holding, std::size_t first_message, bool all,
                            Effects& effects);
  static void refine_credit(CreditInHand& holding);

  const Plan& plan_;
  const PlanNode& node_;
  Pools& pools_;
  bool opens_ = false;                      // scopes, or parts that wait in a join's scope
  std::vector<const Edge*> edges_;          // the node's, in its order
  std::vector<Way> ways_;                   // of all flows, one after the other
  std::vector<std::size_t> first_way_;      // by flow
  std::vector<std::vector<Place>> places_;  // by edge: the flows that go along it
  std::vector<Message*> message_of_edge_;   // of the yield in hand; null: not taken
  std::vector<ScopeRef> open_scope_;  // of the yield in hand, by flow that begins here; or null
};

}  // namespace sluice
