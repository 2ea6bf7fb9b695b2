// A machine with ill intent: it hears what all the others say, and says what it likes.
//
// It is the last machine, no node lives there, and calls may begin there; so nothing that it says
// may touch a call of another. It speaks the product's format over an honest link: messages as it
// heard them, changed ones, ones that it passes off as of calls of its own, orders. Its own calls
// are strangers to the oracle; what they start on other machines is answered here. Private to
// runtime/sim. Source: docs/SIMULATION.md, C22; FAILURES, section 3.
#pragma once

#include <vector>

#include "runtime/sim/cluster.h"

namespace sluice::sim {

class Hostile {
 public:
  Hostile(const Plan& plan, const Options& options, Cluster& cluster, Agenda& agenda,
          SplitMix64& random, FaultCounts& counts, Effects& effects)
      : plan_(plan),
        options_(options),
        cluster_(cluster),
        agenda_(agenda),
        random_(random),
        counts_(counts),
        effects_(effects) {
    self_ = pools_.self = {cluster.honest(), 1};
  }

  /// Draws the moments at which it speaks, and the one at which the others learn what it is.
  void plan();
  /// Says something to somebody.
  void speak(Instant now);
  /// Something of its calls starts on another machine.
  void begin(const StartActivation& start, Instant now);
  std::uint32_t machine_of(const Event& event) const { return running_[event.index].machine; }
  /// What was started ends, somehow. The caller performs the effects.
  void end(const Event& event);
  /// The machine drops all there is of its calls. The caller performs the effects.
  void expel(std::uint32_t machine);

  /// Stands in every value that a stranger's activation yields.
  static constexpr FrameNumber frame = 0xffffffffU;

 private:
  struct Running {
    NodeId node = 0;
    ActivationId activation;
    std::uint32_t machine = 0;
    std::uint32_t incarnation = 0;  // of its machine
  };

  /// One that somebody said, as the others see it.
  Message* recall(Instant now);
  void claim(Message& message);
  void claim(Share& share);
  void turn_into_order(Message& message);
  void change(wire::Bytes& bytes);

  const Plan& plan_;
  const Options& options_;
  Cluster& cluster_;
  Agenda& agenda_;
  SplitMix64& random_;
  FaultCounts& counts_;
  Effects& effects_;
  Pools pools_;
  Origin self_;
  std::vector<Running> running_;
};

}  // namespace sluice::sim
