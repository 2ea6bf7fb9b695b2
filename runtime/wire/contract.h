// What a machine may say to another: about which nodes, in whose calls, with values of which types.
//
// Made once from the plan, the roles' declarations and where the nodes live; `decode` asks it, with
// the sender as the link proved him. Each rule is one that every machine can check by itself, from
// things that all agree on, so an honest machine never passes on what it would be refused for.
// Thread: immutable. Errors: a rule that is broken, in words. Source: docs/WIRE.md, "Who may say
// what"; FAILURES, section 3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/declaration.h"
#include "graph/frame.h"
#include "graph/plan.h"
#include "graph/replicas.h"
#include "graph/spec.h"

namespace sluice::wire {

/// Where things are. All machines of a cluster have the same.
struct Placement {
  NodeMachines nodes;
  std::vector<bool> homes;  // by machine: calls begin there
};

/// By node, then by output: each port that a value there has to fit. The entry's outputs are the
/// call's inputs.
using PortTable = std::vector<std::vector<std::vector<Port>>>;
PortTable ports_of(const WorkflowSpec& spec, const Plan& plan, const Declarations& declarations);

class Contract {
 public:
  /// Borrows the plan. An empty `ports`: values of any type.
  Contract(const Plan& plan, Placement placement, PortTable ports);

  /// Whether the message's kind, place and call are the sender's to name, and this machine's to
  /// hear. Requires: they are in the plan.
  std::string_view head_problem(const Message& message, Origin from, std::uint32_t self) const;
  /// Whether this machine could have opened a scope of the collector in this call. `refined`: one
  /// that stands for a part of another.
  bool may_open(CollectorId collector, Origin opener, const CallId& call, bool refined) const;
  /// Whether the sender could have told this of its own nodes.
  std::string_view notice_problem(const Message& message, Origin from) const;
  std::optional<std::string> value_problem(NodeId from, std::size_t output,
                                           const Payload& value) const;

 private:
  bool lives(NodeId node, std::uint32_t machine, const CallId& call) const {
    return placement_.nodes.machine(node, call) == machine;
  }
  /// Whether an activation there, or the call's entry, can hold a share of the collector.
  bool may_hold(CollectorId collector, Origin holder, const CallId& call) const;

  const Plan& plan_;
  const Placement placement_;
  const PortTable ports_;
  std::vector<std::vector<NodeId>> holders_;  // by collector: one node of each machine, or all
  std::vector<bool> entry_holds_;             // by collector
};

/// Whom a message came from, as his link's handshake proved it, and by what he is judged.
struct Sender {
  Origin origin;
  const Contract& contract;
};

}  // namespace sluice::wire
