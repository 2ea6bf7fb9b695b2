// Who has to let a machine's life in before it hears messages: the keeper, and every other home.
//
// The keeper says which lives are there, then that this one is let in. Each other home that is
// there names the calls of its own that are still being given up, since they used an earlier life
// of this machine, and what is void of its sessions: late messages of such calls may come from
// anybody. So none is heard before the last of them has spoken. A home that is lost is not waited
// for: its calls go with it. Pure: once in, always in.
// Thread: one at a time. Source: docs/CLUSTER.md, "Several homes".
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/ids.h"

namespace sluice {

class LetIn {
 public:
  /// `homes`: by machine, those that have to speak beside the keeper, if they are there.
  explicit LetIn(std::vector<bool> homes)
      : homes_(std::move(homes)), there_(homes_.size()), spoke_(homes_.size()) {}

  /// The keeper says so.
  void joined(Origin life) {
    if (life.machine < homes_.size() && homes_[life.machine])
      there_[life.machine] = life.incarnation;
  }
  void lost(Origin life) {
    if (life.machine < homes_.size() && there_[life.machine] <= life.incarnation)
      there_[life.machine] = nobody;
  }
  void by_keeper() { by_keeper_ = true; }
  /// It may be heard before the keeper has said that this home is there.
  void by_home(Origin home) {
    if (home.machine < homes_.size() && spoke_[home.machine] < home.incarnation)
      spoke_[home.machine] = home.incarnation;
  }
  /// This life of it, or a later one.
  bool has_spoken(Origin home) const { return spoke_[home.machine] >= home.incarnation; }
  /// True once: when the last of them has let it in.
  bool enters() {
    if (in_ || !by_keeper_) return false;
    for (std::size_t home = 0; home < homes_.size(); ++home)
      if (there_[home] != nobody && spoke_[home] < there_[home]) return false;
    in_ = true;
    return true;
  }
  bool is_in() const { return in_; }

 private:
  static constexpr std::uint32_t nobody = 0;
  std::vector<bool> homes_;
  std::vector<std::uint32_t> there_;  // by machine: the home's life; `nobody`: none is waited for
  std::vector<std::uint32_t> spoke_;  // by machine: in which life it has
  bool by_keeper_ = false;
  bool in_ = false;
};

}  // namespace sluice
