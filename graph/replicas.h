// Nodes whose role several machines have: which of them a call uses.
//
// The call's home chooses, when it names the call, and the name says what it chose: a call's number
// is its serial number times `choices()`, plus the choice. So whoever sends a message of the call
// knows from the call's name where it goes, nobody is asked, and all of a call that belongs to one
// collector comes to one machine. Roles that must share memory make one unit, of which a call uses
// one machine. Thread: immutable. Source: docs/CLUSTER.md, "A role on several machines".
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/ids.h"
#include "graph/plan.h"

namespace sluice {

/// The most ways in which a call's roles can be spread; so a number has room for 2^44 calls.
inline constexpr std::uint64_t choices_max = std::uint64_t{1} << 20U;

class Replicas {
 public:
  struct Unit {
    std::vector<std::uint32_t> machines;  // two or more, each once
    bool by_session = false;              // a session stays on the machine that it has got
    bool by_cache = false;                // then: a new one goes where its inputs are known
  };

  /// Every role is on one machine.
  Replicas() = default;
  /// `unit_of`: by node; `none`: it is on one machine. Requires: at most `choices_max` choices.
  Replicas(std::vector<Unit> units, std::vector<std::uint16_t> unit_of)
      : units_(std::move(units)), unit_of_(std::move(unit_of)) {
    for (const Unit& unit : units_) {
      strides_.push_back(choices_);
      choices_ *= unit.machines.size();
    }
  }

  bool any() const { return !units_.empty(); }
  bool has(NodeId node) const { return any() && unit_of_[node] != none; }
  const std::vector<Unit>& units() const { return units_; }
  /// Requires `has(node)`, here and below.
  std::size_t unit(NodeId node) const { return unit_of_[node]; }
  std::uint64_t choices() const { return choices_; }
  /// What is added to a number for the unit's machine at `index` of its list.
  std::uint64_t part(std::size_t unit, std::size_t index) const { return strides_[unit] * index; }
  /// Which of the unit's machines the call with this number uses.
  std::size_t index(std::size_t unit, std::uint64_t number) const {
    return number / strides_[unit] % units_[unit].machines.size();
  }
  std::uint32_t machine(NodeId node, std::uint64_t number) const {
    return machines(node)[index(unit(node), number)];
  }
  const std::vector<std::uint32_t>& machines(NodeId node) const {
    return units_[unit(node)].machines;
  }

 private:
  std::vector<Unit> units_;
  std::vector<std::uint16_t> unit_of_;
  std::vector<std::uint64_t> strides_;  // by unit
  std::uint64_t choices_ = 1;
};

/// Where a plan's nodes live. All machines of a cluster have the same.
struct NodeMachines {
  std::vector<std::uint32_t>
      of;  // by node; not looked at for the entry and where there are several
  Replicas replicas;

  /// Where messages for the node go in this call.
  std::uint32_t machine(NodeId node, const CallId& call) const {
    return replicas.has(node) ? replicas.machine(node, call.number) : of[node];
  }
  /// It is there in some calls.
  bool lives(NodeId node, std::uint32_t machine) const {
    if (!replicas.has(node)) return of[node] == machine;
    const std::vector<std::uint32_t>& all = replicas.machines(node);
    return std::find(all.begin(), all.end(), machine) != all.end();
  }
  /// The nodes that are there in some calls, in order.
  std::vector<NodeId> nodes_of(std::uint32_t machine) const {
    std::vector<NodeId> nodes;
    for (std::size_t node = 1; node < of.size(); ++node)
      if (lives(static_cast<NodeId>(node), machine)) nodes.push_back(static_cast<NodeId>(node));
    return nodes;
  }
};

}  // namespace sluice
