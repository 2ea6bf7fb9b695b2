// The names of sessions that have not ended, each home's counted for itself: none takes another's
// room.
//
// Thread: whoever drives. Bounds: `most` of this home. Twice as many of each other, whose sessions'
// ends may come later than the names of those that follow: those come by other machines, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/ids.h"

namespace sluice {

class KnownSessions {
 public:
  KnownSessions(std::size_t machines, std::uint32_t self, std::size_t most)
      : of_(machines), self_(self), most_(most) {}

  std::size_t most_of(std::uint32_t home) const { return home == self_ ? most_ : 2 * most_; }
  /// Null: it is not known.
  const std::string* find(const SessionId& session) const {
    const auto known = names_.find(session);
    return known == names_.end() ? nullptr : &known->second;
  }
  /// False: it is a new one, and its home has as many as may be.
  bool has_room(const SessionId& session) const {
    const std::uint32_t home = session.home.machine;
    return of_[home] < most_of(home) || names_.contains(session);
  }
  /// Requires: has_room(session).
  void set(const SessionId& session, std::string name) {
    const auto [known, is_new] = names_.insert_or_assign(session, std::move(name));
    if (is_new) ++of_[session.home.machine];
  }
  void erase(const SessionId& session) {
    if (names_.erase(session) != 0) --of_[session.home.machine];
  }
  /// Of this home, those below `limit`.
  std::set<std::uint64_t> own_below(std::uint64_t limit) const {
    std::set<std::uint64_t> numbers;
    for (const auto& [id, name] : names_)
      if (id.home.machine == self_ && id.number < limit) numbers.insert(id.number);
    return numbers;
  }
  /// Those of this life of a home, and of its earlier ones.
  void forget(Origin home) {
    of_[home.machine] -= std::erase_if(names_, [&](const auto& known) {
      const Origin of = known.first.home;
      return of.machine == home.machine && of.incarnation <= home.incarnation;
    });
  }

 private:
  std::map<SessionId, std::string> names_;
  std::vector<std::size_t> of_;  // by machine: sessions of it as a home
  std::uint32_t self_;
  std::size_t most_;
};

}  // namespace sluice
