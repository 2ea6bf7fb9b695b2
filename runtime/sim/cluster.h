// The simulated machines: each with its clock, its memory, its engines, and perhaps a home of
// calls.
//
// No two share anything: what goes from one to another is bytes on a `Network`, made and read by
// the product's codec; within a machine messages take a random time each and overtake. Private to
// runtime/sim.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "graph/coordinator.h"
#include "graph/engine.h"
#include "graph/replicas.h"
#include "runtime/membership.h"
#include "runtime/sim/agenda.h"
#include "runtime/sim/network.h"
#include "runtime/sim/oracle.h"
#include "runtime/sim/simulation.h"

namespace sluice::sim {

/// A hostile machine needs two others that talk to each other; where nobody says how many homes
/// there are, it is there for every third seed.
Options settled(Options options);
/// With faults, and where nobody says it: one to three, as the seed says.
std::uint32_t homes_of(const Options& options);

/// A clock that is off, and goes too fast or too slow.
struct Clock {
  Instant offset{};
  std::int64_t ppm = 0;

  Instant local(Instant now) const {
    return offset + now + now / 1'000'000 * ppm + now % 1'000'000 * ppm / 1'000'000;
  }
  /// The first moment at which it shows `local` or more.
  Instant when(Instant local) const;
};

struct Machine {
  Pools pools;  // `self`: which machine, in which life
  Membership peers{0};
  std::vector<std::uint64_t> told;    // by machine: up to which life it knows to be over, plus 1
  std::unique_ptr<Windows> windows;   // null: nothing bounds what is on its way
  std::unique_ptr<Coordinator> home;  // null: no callers here, or nobody is there
  Clock clock;
  bool paused = false;          // or dead
  bool away = false;            // counts as lost, and is not back yet
  bool empty = false;           // has forgotten all, and waits to be let in
  std::size_t notices = 0;      // about its end, that are on their way
  std::vector<Event> deferred;  // what came while it was paused
};

class Cluster {
 public:
  Cluster(const Plan& plan, const Options& options, std::uint32_t homes, Agenda& agenda,
          SplitMix64& random, Oracle& oracle, FaultCounts& counts);

  std::uint32_t size() const { return options_.machines; }
  std::uint32_t homes() const { return homes_; }
  /// All machines but the hostile one, which is the last.
  std::uint32_t honest() const { return honest_; }
  /// True for calls of the hostile machine: the oracle does not know them.
  bool is_stranger(const CallId& call) const { return call.home.machine >= honest_; }
  /// Some of what machines said lately; empty where nobody listens.
  const std::vector<wire::Bytes>& heard() const { return heard_; }
  const wire::Limits& limits() const { return limits_; }
  std::uint32_t machine_of(NodeId node, const CallId& call) const {
    return nodes_.machine(node, call);
  }
  /// Those that are there in some calls.
  std::vector<NodeId> nodes_of(std::uint32_t machine) const { return nodes_.nodes_of(machine); }
  const Replicas& replicas() const { return nodes_.replicas; }
  Machine& machine(std::uint32_t index) { return machines_[index]; }
  Engine& engine(NodeId node, std::uint32_t machine) { return *engines_[machine][node]; }
  Network& network() { return network_; }

  void send(Message* message, std::uint32_t from, Instant now);
  /// The message that the event brings, from the pools of the machine it comes to; null: late,
  /// repeated, refused or lost.
  Message* receive(const Event& event, Instant now);

  /// True when none of the node's windows there is full. The entry's are the home's.
  bool may_yield(NodeId node, std::uint32_t machine) const {
    const Machine& here = machines_[machine];
    return here.windows == nullptr || here.windows->may_yield(node);
  }
  void started(NodeId node, std::uint32_t machine);
  void note_drops(const std::vector<NotStarted>& drops);
  void ended(NodeId node, std::uint32_t machine) { ended_.emplace_back(node, machine); }
  /// At the end of an event: gives back what was taken, and says so to others.
  void settle_windows(Instant now);

  /// All that the machine knew is gone.
  void wipe(std::uint32_t machine);
  /// It begins a new life. The others know: `given_up` are calls that they are still giving up.
  void restart(std::uint32_t machine, const std::vector<CallId>& given_up, Effects& effects);

  /// When nothing happens any more: what is left in engines and pools of machines, links that say
  /// nothing more, bytes of windows that one end has lost.
  void check_left_over();
  /// Of machines that are not paused, in true time.
  Instant next_deadline() const;
  /// A node with a deadline or an age, and where one of its engines is.
  using Placed = std::pair<NodeId, std::uint32_t>;
  const std::vector<Placed>& timed() const { return timed_; }
  /// Shows the engines with deadlines the time, as their machines' clocks have it.
  void advance(Instant now);
  Instant local(std::uint32_t machine, Instant now) const {
    return machines_[machine].clock.local(now);
  }
  std::chrono::nanoseconds draw(const Range& range);

 private:
  void make_clocks();
  Message* receive_parcel(const Event& event, Instant now);
  std::string leaks() const;
  std::string lost_of_windows() const;
  void make_home(Machine& machine);
  void make_windows(Machine& machine);
  void take_back(const Parcel& parcel, std::uint32_t machine);
  void note_sent(const Message& message, std::uint32_t from, std::uint32_t to, std::size_t bytes);
  wire::Placement placement() const;
  void overhear(const wire::Bytes& bytes);

  const Plan& plan_;
  const Options& options_;
  const std::uint32_t homes_;
  const std::uint32_t honest_;
  const wire::Limits limits_;
  Agenda& agenda_;
  SplitMix64& random_;
  Oracle& oracle_;
  FaultCounts& counts_;
  const NodeMachines nodes_;
  const wire::Contract contract_;
  std::vector<wire::Bytes> heard_;
  std::uint64_t overheard_ = 0;
  std::vector<Machine> machines_;
  std::vector<std::vector<std::unique_ptr<Engine>>> engines_;  // by machine, then by node
  std::vector<Placed> timed_;
  struct Took {
    std::uint32_t machine = 0;
    Return frame;  // `to`: who sent it
  };
  const std::vector<bool> stops_;  // by edge
  std::vector<Took> took_;         // in this event
  std::vector<Placed> ended_;      // likewise: nodes of activations
  Network network_;
};

}  // namespace sluice::sim
