// Of roles on several machines, what the simulation saw of calls and sessions there.
//
// C29: all of a call that such a role runs is on one machine. C30: so is all of a session where
// sessions stay, until that machine is lost; a home in another life begins anew. C31: a call gets a
// machine that its home takes for there, while there is one, and ends for the loss of none but its
// own. Private to runtime/sim. Source: docs/SIMULATION.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "graph/effect.h"
#include "runtime/sim/cluster.h"

namespace sluice::sim {

class SpreadCheck {
 public:
  SpreadCheck(Cluster& cluster, Oracle& oracle) : cluster_(cluster), oracle_(oracle) {}

  /// Its home has just named it.
  void named(const CallId& call) {
    const Replicas& replicas = cluster_.replicas();
    if (!replicas.any()) return;
    Named& row = named_[call];
    for (std::uint32_t i = 0; i < cluster_.honest(); ++i)
      row.lives.push_back(cluster_.machine(i).pools.self.incarnation);
    const Membership& known = cluster_.machine(call.home.machine).peers;
    const auto is_there = [&](std::uint32_t machine) {
      return machine == call.home.machine || known.is_there(machine);
    };
    for (std::size_t i = 0; i < replicas.units().size(); ++i) {
      const std::vector<std::uint32_t>& machines = replicas.units()[i].machines;
      const std::uint32_t chosen = machines[replicas.index(i, call.number)];
      if (!is_there(chosen) && std::ranges::any_of(machines, is_there))
        row.wrong = "gets machine " + std::to_string(chosen) + ", which is lost";
    }
  }
  /// By an engine of `machine`, which does not count as lost.
  void started(const StartActivation& start, std::uint32_t machine) {
    const Replicas& replicas = cluster_.replicas();
    if (!replicas.has(start.node)) return;
    const std::size_t unit = replicas.unit(start.node);
    const std::uint32_t of_call = calls_.try_emplace({start.call, unit}, machine).first->second;
    if (of_call != machine)
      violated(start.call, "29: ",
               "runs on machines " + std::to_string(machine) + " and " + std::to_string(of_call));
    if (!replicas.units()[unit].by_session) return;
    const Origin here = cluster_.machine(machine).pools.self;
    Origin& known =
        sessions_.try_emplace({start.call.home, start.session, unit}, here).first->second;
    const Machine& before = cluster_.machine(known.machine);
    if (known.machine != machine && !before.away && before.pools.self == known)
      violated(start.call, "30: ",
               "is on machine " + std::to_string(machine) + ", and its session on machine " +
                   std::to_string(known.machine) + ", which is there");
    known = here;
  }
  void ended(const EndCall& end) {
    const auto row = named_.find(end.call);
    if (row == named_.end()) return;
    const bool refused = end.failure && end.failure->kind == FailureKind::refused;
    if (!refused && !row->second.wrong.empty()) violated(end.call, "31: ", row->second.wrong);
    // A home that counts as lost itself hears of nobody who is back.
    const bool fenced = cluster_.machine(end.call.home.machine).away;
    if (!fenced && end.failure && end.failure->kind == FailureKind::node_lost) {
      const NodeId node = end.failure->node;
      const Origin there = node == entry_node
                               ? end.call.home
                               : cluster_.machine(cluster_.machine_of(node, end.call)).pools.self;
      if (!cluster_.machine(there.machine).away &&
          there.incarnation == row->second.lives[there.machine])
        violated(end.call, "31: ", "ends for a machine that is there");
    }
    named_.erase(row);
  }

 private:
  struct Named {
    std::vector<std::uint32_t> lives;  // of all machines at that time
    std::string wrong;
  };

  void violated(const CallId& call, const char* rule, const std::string& what) {
    oracle_.violated("C" + std::string(rule) + "call " + std::to_string(oracle_.call_of(call)) +
                     " " + what);
  }

  Cluster& cluster_;
  Oracle& oracle_;
  std::map<CallId, Named> named_;  // that have not ended
  std::map<std::tuple<CallId, std::size_t>, std::uint32_t> calls_;
  std::map<std::tuple<Origin, std::uint64_t, std::size_t>, Origin> sessions_;
};

}  // namespace sluice::sim
