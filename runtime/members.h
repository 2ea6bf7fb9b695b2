// Who belongs to a cluster: the list, as the keeper has it.
//
// A machine is let in when it asks, in the life in which it speaks; it is lost when nothing was
// heard of it for a lease, when another cannot hear it, when what it said was wrong, or when it
// speaks in a later life. A life that was lost does not come back: it is refused until a later one
// is there. The others never decide: a member asks the first life of the keeper that it hears, and
// when that falls silent, is followed by another, or says that the member's own life is over, the
// member begins a new one (`Member`). Pure: what a transport reports goes in, what is to be done
// comes out.
// Thread: one at a time. Source: omni-flow, section 3.4 (instances);
// docs/CLUSTER.md, "Who is there".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/ids.h"

namespace sluice {

/// What is to be done, in this order.
struct MemberEffect {
  enum class Kind : std::uint8_t {
    refuse,  // talk to this life no more, and tell it so
    lost,    // it is over: tell all, and end what ran there
    joined,  // it is there: tell all, and it that it is let in
    ask,     // this life, of the keeper, to be let in
    report,  // tell the keeper that this life cannot be heard, or is wrong
    anew,    // this machine's own life is over: forget all, begin another
  };
  Kind kind = Kind::refuse;
  Origin life;
  std::string why;
};
using MemberEffects = std::vector<MemberEffect>;

/// The keeper's side.
class Members {
 public:
  /// `self`: the keeper's own number. Nobody else is there yet.
  Members(std::size_t machines, std::uint32_t self) : self_(self), lives_(machines) {}

  void connected(Origin life, MemberEffects& effects) {
    if (!is_other(life.machine)) return;
    const Life& known = lives_[life.machine];
    const bool over = life.incarnation == known.incarnation && !known.there;
    if (life.incarnation < known.incarnation || over) return refuse(life, effects);
    if (life.incarnation > known.incarnation && known.there)
      lose(life.machine, "it has begun anew", effects);
  }
  /// It asks to be let in. That it was connected may be said before or after.
  void asked(Origin life, MemberEffects& effects) {
    connected(life, effects);
    if (!is_other(life.machine) || life.incarnation <= lives_[life.machine].incarnation) return;
    lives_[life.machine] = {life.incarnation, true};
    effects.push_back({MemberEffect::Kind::joined, life, {}});
  }
  /// Nothing was heard of this life for a lease, or what it says is wrong, or it takes its leave.
  void lost(Origin life, const std::string& why, MemberEffects& effects) {
    if (!is_there(life)) return;
    lose(life.machine, why, effects);
    refuse(life, effects);
  }
  /// A member says so of another.
  void reported(Origin by, Origin about, const std::string& why, MemberEffects& effects) {
    if (is_there(by)) lost(about, why, effects);
  }

  bool is_there(Origin life) const {
    return is_other(life.machine) && lives_[life.machine].there &&
           lives_[life.machine].incarnation == life.incarnation;
  }
  /// Machines that are not there, by number.
  std::vector<std::uint32_t> missing() const {
    std::vector<std::uint32_t> missing;
    for (std::uint32_t i = 0; i < lives_.size(); ++i)
      if (i != self_ && !lives_[i].there) missing.push_back(i);
    return missing;
  }

 private:
  struct Life {
    std::uint32_t incarnation = 0;  // the latest that was there; 0: none yet
    bool there = false;
  };

  bool is_other(std::uint32_t machine) const { return machine != self_ && machine < lives_.size(); }
  static void refuse(Origin life, MemberEffects& effects) {
    effects.push_back({MemberEffect::Kind::refuse, life, {}});
  }
  void lose(std::uint32_t machine, const std::string& why, MemberEffects& effects) {
    lives_[machine].there = false;
    effects.push_back({MemberEffect::Kind::lost, {machine, lives_[machine].incarnation}, why});
  }

  std::uint32_t self_;
  std::vector<Life> lives_;
};

/// Everybody else's side: one life, which is bound to one life of the keeper.
class Member {
 public:
  explicit Member(std::uint32_t keeper) : keeper_{keeper, 0} {}

  void connected(Origin life, MemberEffects& effects) {
    unheard_.erase(life.machine);
    if (over_ || life.machine != keeper_.machine || life == keeper_) return;
    if (keeper_.incarnation != 0)
      return anew("the machine that keeps the list has begun anew", effects);
    keeper_ = life;
    effects.push_back({MemberEffect::Kind::ask, life, {}});
  }
  /// Nothing was heard of this life for a lease, or what it says is wrong.
  void lost(Origin life, const std::string& why, MemberEffects& effects) {
    if (over_) return;
    if (life == keeper_) return anew("the machine that keeps the list is lost: " + why, effects);
    if (life.machine == keeper_.machine) return;
    unheard_[life.machine] = {life, why};
    report(life.machine, effects);
  }
  /// The keeper says that this life is there. It may have been reported before it knew of it.
  void joined(Origin life, MemberEffects& effects) {
    const auto unheard = unheard_.find(life.machine);
    if (!over_ && unheard != unheard_.end() && unheard->second.first == life)
      report(life.machine, effects);
  }
  /// Somebody says that this machine's life is over.
  void refused(MemberEffects& effects) {
    if (!over_) anew("this life counts as lost", effects);
  }
  /// Incarnation 0: it was not heard yet.
  Origin keeper() const { return keeper_; }

 private:
  void anew(std::string why, MemberEffects& effects) {
    over_ = true;
    effects.push_back({MemberEffect::Kind::anew, {}, std::move(why)});
  }

  void report(std::uint32_t machine, MemberEffects& effects) {
    const auto& [life, why] = unheard_[machine];
    if (keeper_.incarnation != 0) effects.push_back({MemberEffect::Kind::report, life, why});
  }

  Origin keeper_;
  std::map<std::uint32_t, std::pair<Origin, std::string>> unheard_;  // by machine: life, why
  bool over_ = false;
};

}  // namespace sluice
