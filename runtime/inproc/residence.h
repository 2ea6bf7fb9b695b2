// Which of a plan's nodes live on this machine, where the others do, and where calls begin.
//
// Thread: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/effect.h"
#include "graph/plan.h"
#include "graph/replicas.h"
#include "runtime/wire/contract.h"
#include "runtime/wire/lending.h"

namespace sluice {

struct Residence {
  Origin self;                 // this machine, in this life
  std::uint32_t keeper = 0;    // keeps the list of who is there
  std::vector<bool> homes{};   // by machine: calls begin there; empty: here, and nobody else is
  std::uint32_t machines = 1;  // their numbers are below this
  NodeMachines nodes;          // empty: all are here
  /// What the others may say; borrowed until nothing of them is heard any more. Null: nobody else.
  const wire::Contract* contract = nullptr;

  bool is_alone() const { return nodes.of.empty(); }
  bool is_keeper() const { return self.machine == keeper; }
  bool is_home(std::uint32_t machine) const { return machine < homes.size() && homes[machine]; }
  bool is_home() const { return is_alone() || is_home(self.machine); }
  /// Perhaps in some calls only.
  bool is_here(NodeId node) const { return is_alone() || nodes.lives(node, self.machine); }
  /// Where messages for the node go in this call; the entry is at the call's home.
  std::uint32_t machine(NodeId node, const CallId& call) const {
    return node == entry_node ? call.home.machine : nodes.machine(node, call);
  }
  bool is_here(NodeId node, const CallId& call) const {
    return is_alone() || machine(node, call) == self.machine;
  }
  /// Whether frames of the edge may go from one machine to the other.
  bool leads(const Edge& edge, std::uint32_t from, std::uint32_t to) const {
    const auto may_be = [&](NodeId node, std::uint32_t machine) {
      return node == entry_node ? is_home(machine) : nodes.lives(node, machine);
    };
    return may_be(edge.from, from) && may_be(edge.to, to);
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
