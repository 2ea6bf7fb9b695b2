// Machines and links in trouble, and the list of machines that all agree on.
//
// A machine that is silent for a lease is declared lost; so is one that only seems to be, and goes
// on until it hears of it. The verdict reaches each of the others in its own time. Once all know,
// and the machine has forgotten everything, it is let in again, in a new life. Private to
// runtime/sim. Source: docs/SIMULATION.md, "Faults".
#pragma once

#include "runtime/sim/cluster.h"

namespace sluice::sim {

/// Who has to know.
class TroubleHost {
 public:
  /// What the effects say is to be done, by this machine.
  virtual void perform(std::uint32_t machine) = 0;
  /// All that ran there is gone, and so are the calls of its home.
  virtual void forget_machine(std::uint32_t machine) = 0;
  /// The calls that run now may have lost some of their credit.
  virtual void credit_lost() = 0;

 protected:
  ~TroubleHost() = default;
};

class Troubles {
 public:
  Troubles(const Options& options, Cluster& cluster, Agenda& agenda, SplitMix64& random,
           FaultCounts& counts, Effects& effects, TroubleHost& host)
      : options_(options),
        cluster_(cluster),
        agenda_(agenda),
        random_(random),
        counts_(counts),
        effects_(effects),
        host_(host) {}

  /// Each machine and link draws the moments of its faults beforehand, about one in 20 ms each.
  void plan();
  void handle(const Event& event, Instant now);

 private:
  void cut(const Event& event, Instant now);
  void pause(std::uint32_t machine, Instant now);
  void resume(std::uint32_t machine, Instant now);
  void kill(std::uint32_t machine, Instant now);
  void suspect(std::uint32_t machine, Instant now);
  /// The machine counts as lost from now on: the others will hear of it.
  void declare(std::uint32_t machine, Instant now);
  void notice(const Event& event, Instant now);
  void settle_notice(std::uint32_t about, Instant now);
  void forget(std::uint32_t machine, Instant now);
  void admit(std::uint32_t machine, Instant now);
  void catch_up(Machine& machine, Instant now);

  const Options& options_;
  Cluster& cluster_;
  Agenda& agenda_;
  SplitMix64& random_;
  FaultCounts& counts_;
  Effects& effects_;
  TroubleHost& host_;
};

}  // namespace sluice::sim
