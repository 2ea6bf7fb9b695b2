// Who of a cluster is there, and in which life, as one machine has been told.
//
// A machine that is declared lost may still be alive and talking: what one of its lives says is
// refused from the moment on that this machine knows it to be over. Pure. Thread: one loop.
// Source: omni-flow, section 3.4 (instances); docs/CLUSTER.md, "Who is there".
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ids.h"

namespace sluice {

class Membership {
 public:
  /// All are there, in their first life; or nobody is there yet.
  explicit Membership(std::size_t machines, bool there = true)
      : lives_(machines, Life{there ? 1U : 0U, there}) {}

  /// The machine has begun this life: those before are over. No news of one that is known already.
  void joined(Origin life) {
    if (life.incarnation > lives_[life.machine].incarnation)
      lives_[life.machine] = {life.incarnation, true};
  }
  /// This life is over. No news when a later one has begun.
  void lost(Origin life) {
    if (lives_[life.machine].incarnation <= life.incarnation)
      lives_[life.machine] = {life.incarnation, false};
  }
  bool is_there(std::uint32_t machine) const { return lives_[machine].there; }
  /// The latest that is known.
  Origin life_of(std::uint32_t machine) const { return {machine, lives_[machine].incarnation}; }
  /// True when what this life says counts.
  bool accepts(Origin life) const {
    const Life& known = lives_[life.machine];
    return known.there && known.incarnation == life.incarnation;
  }

 private:
  struct Life {
    std::uint32_t incarnation = 1;
    bool there = true;
  };
  std::vector<Life> lives_;
};

}  // namespace sluice
