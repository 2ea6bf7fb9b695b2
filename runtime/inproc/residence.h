// Which of a plan's nodes live on this machine, and where the others do.
//
// Thread: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/effect.h"
#include "graph/plan.h"
#include "runtime/wire/contract.h"
#include "runtime/wire/lending.h"

namespace sluice {

struct Residence {
  Origin self;                            // this machine, in this life
  std::uint32_t home = 0;                 // the callers' machine
  std::uint32_t machines = 1;             // their numbers are below this
  std::vector<std::uint32_t> machine_of;  // by node, but for the entry; empty: all are here
  /// What the others may say; borrowed until nothing of them is heard any more. Null: nobody else.
  const wire::Contract* contract = nullptr;

  bool is_alone() const { return machine_of.empty(); }
  bool is_home() const { return self.machine == home; }
  bool is_here(NodeId node) const { return is_alone() || machine_of[node] == self.machine; }
  /// Where messages for the node go; the entry is at home.
  std::uint32_t machine(NodeId node) const { return node == entry_node ? home : machine_of[node]; }
  /// The nodes that live there, in order.
  std::vector<NodeId> nodes_of(std::uint32_t there) const {
    std::vector<NodeId> nodes;
    for (std::size_t node = 1; node < machine_of.size(); ++node)
      if (machine_of[node] == there) nodes.push_back(static_cast<NodeId>(node));
    return nodes;
  }
};

/// How what a loop's engines say leaves the machine.
class LoopPort {
 public:
  virtual ~LoopPort() = default;
  /// Borrowed for the call. May tell the loop at once what cannot be sent.
  virtual void send(std::uint32_t machine, const Message& message) = 0;
  /// Null: nothing is shared with other machines.
  virtual wire::Lender* lender() { return nullptr; }
  /// The engine here has a frame of so many bytes that came along this edge.
  virtual void took(Origin from, EdgeId edge, std::size_t bytes) = 0;
  /// An engine or the coordinator here has refused something that does not go together with what
  /// came before, of whoever: the call cannot end by itself.
  virtual void refused(const Refusal& refusal) = 0;
};

}  // namespace sluice
