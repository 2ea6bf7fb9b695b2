// Back-pressure between machines: how many bytes of frames one machine has sent and not got back.
//
// Each edge between two machines has a window. A frame takes its bytes from it when it is sent; the
// consumer's machine gives them back (`Return`) when the consumer's engine has taken the frame and
// has nothing in hand, or one for each activation of the consumer that ends (for as many as a set
// of inputs makes, where it runs on each replica). While a window is full its producer may not
// yield. Which edges may stop their producer, and why no two wait for each other: docs/WIRE.md.
// Pure. Thread: one. Units: bytes. Bounds: an edge holds its window and one frame for each
// activation of its producer that ran when it filled.
// Source: credit-based flow control (Kung and Morris, 1995); docs/WIRE.md, back-pressure.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "graph/plan.h"

namespace sluice {

/// What a frame takes besides its bytes, in the queues and records of its consumer.
inline constexpr std::size_t frame_overhead = 512;

/// A workflow, and what its nodes stop with: when one node of a place waits, no other node of it
/// runs. By node; the entry's is not read.
struct WaitGraph {
  const Plan* plan = nullptr;
  std::vector<std::uint32_t> places;
};

/// Nodes of one executor stop together.
WaitGraph by_executor(const Plan& plan);

/// By graph and edge: true where a full window stops the producer. Of every circle of places at
/// least one edge is left out, so whoever waits waits for places further on.
std::vector<std::vector<bool>> stopping_edges(std::span<const WaitGraph> graphs);

/// Bytes of an edge that go back to a machine.
struct Return {
  std::uint32_t to = 0;
  EdgeId edge = 0;
  std::uint64_t bytes = 0;
};

/// One machine's side of all windows of one workflow.
class Windows {
 public:
  /// `stops`: see `stopping_edges`. Borrows the plan.
  Windows(const Plan& plan, std::vector<bool> stops, std::size_t window);

  // The producers' side.
  void sent(EdgeId edge, std::uint32_t to, std::size_t bytes);
  /// False when that is more than it has: whoever says so is wrong, and nothing was done.
  [[nodiscard]] bool returned(EdgeId edge, std::uint32_t by, std::uint64_t bytes);
  /// The entry too: calls may start.
  bool may_yield(NodeId node) const { return full_[node] == 0; }
  /// Nodes of which `may_yield` has changed since it was asked last.
  std::vector<NodeId> take_changed() { return std::exchange(changed_, {}); }
  bool stops(EdgeId edge) const { return stops_[edge]; }
  std::uint64_t owed(EdgeId edge, std::uint32_t by) const;

  // The consumers' side: an activation has started (its role was asked for) and ended.
  void started(NodeId node) { ++in_hand_[node]; }
  void ended(NodeId node);
  /// The engine has the frame, and what it starts has been told to `started`.
  void took(EdgeId edge, std::uint32_t from, std::size_t bytes);
  /// What is to be told to other machines, since it was asked last.
  std::vector<Return> take_returns() { return std::exchange(returns_, {}); }
  /// Given back, and too little to be told yet, or not given back yet.
  std::uint64_t kept(EdgeId edge, std::uint32_t from) const;

  /// Another life of that machine: what was between this one and the earlier is void.
  void forget(std::uint32_t machine);

 private:
  struct Sent {
    std::uint32_t to = 0;
    std::uint64_t bytes = 0;
  };
  struct Taken {
    std::uint32_t from = 0;
    std::deque<std::uint64_t> frames;  // not given back yet, in the order in which they came
    std::uint64_t back = 0;            // given back, and not told yet
  };

  bool is_full(const Sent& sent) const { return sent.bytes >= window_; }
  /// What was sent over the edge, or came back, made the window full, or no more.
  void note(EdgeId edge, bool was_full, bool is_full);
  void give_back(EdgeId edge, Taken& taken, bool all);

  const Plan& plan_;
  const std::vector<bool> stops_;
  const std::size_t window_;
  std::vector<std::vector<Sent>> sent_;    // by edge: few machines each
  std::vector<std::vector<Taken>> taken_;  // likewise
  std::vector<std::uint32_t> full_;        // by node: windows that stop it
  std::vector<std::size_t> in_hand_;       // by node: activations that have started and not ended
  std::vector<std::uint32_t> ends_;        // by node: that ended since frames were given back
  std::vector<Return> returns_;
  std::vector<NodeId> changed_;
};

}  // namespace sluice
