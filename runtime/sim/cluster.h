// The simulated machines: which engine stands where, and how messages get there.
//
// Messages within a machine take a random time each and overtake; between machines they go through
// a `Link`, in order, repeated after a break. Private to runtime/sim.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "graph/coordinator.h"
#include "graph/engine.h"
#include "runtime/link.h"
#include "runtime/sim/agenda.h"
#include "runtime/sim/oracle.h"
#include "runtime/sim/simulation.h"

namespace sluice::sim {

struct Machine {
  std::uint64_t incarnation = 1;
  bool paused = false;
  bool away = false;            // lost, and not back yet
  std::vector<Event> deferred;  // what came while it was paused
};

struct Link {
  LinkSender<Message*> sender{1 << 20};
  LinkReceiver receiver;
  std::uint64_t connection = 1;
  Instant last_arrival{};
  std::uint64_t unsaid = 0;  // applied, and not acknowledged yet
};

class Cluster {
 public:
  Cluster(const Plan& plan, const Options& options, Pools& pools, Agenda& agenda,
          SplitMix64& random, Oracle& oracle, FaultCounts& counts);

  std::uint32_t machine_of(NodeId node) const { return machine_of_[node]; }
  std::vector<NodeId> nodes_of(std::uint32_t machine) const;
  Machine& machine(std::uint32_t index) { return machines_[index]; }
  Engine& engine(NodeId node) { return *engines_[node]; }

  void send(Message* message, std::uint32_t from, Instant now);
  /// The message that the event brings, or null: late, repeated, or lost with its connection.
  Message* receive(const Event& event, Instant now);
  void applied(const Event& event);
  /// What is done with it is done.
  void give(Message* message);

  void break_link(std::uint32_t link, Instant now);
  /// Everything the machine knew is gone, and what was on its way to and from it.
  void wipe(std::uint32_t machine);
  void restart(std::uint32_t machine, const std::vector<CallId>& given_up);
  std::size_t links() const { return links_.size(); }
  EngineCounts engine_counts() const;
  /// Of the nodes that have one, the earliest; ends what is due.
  Instant next_deadline() const;
  const std::vector<NodeId>& timed() const { return timed_; }
  void advance(NodeId node, Instant now) {
    if (engines_[node]) engines_[node]->advance(now);
  }

  std::chrono::nanoseconds draw(const Range& range);
  std::uint64_t next_tie() { return ++tie_; }

 private:
  void post(std::uint32_t link, std::uint64_t number, Instant now);

  const Plan& plan_;
  const Options& options_;
  Pools& pools_;
  Agenda& agenda_;
  SplitMix64& random_;
  Oracle& oracle_;
  FaultCounts& counts_;
  std::vector<std::uint32_t> machine_of_;  // by node
  std::vector<Machine> machines_;
  std::vector<Link> links_;  // from * machines + to
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<NodeId> timed_;                   // nodes with a deadline or an age
  std::uint64_t tie_ = std::uint64_t{1} << 32;  // below: what a paused machine has to catch up
};

}  // namespace sluice::sim
