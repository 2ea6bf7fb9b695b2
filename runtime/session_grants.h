// Which home of a cluster has a session: the keeper's list, where calls begin on several machines.
//
// A home asks at a session's first call and has it until it gives it back or its life is over. So a
// name is at one home at a time, and who asks first gets it. Sessions of a life that is over are
// remembered until somebody asks for them: the next home is told whose they were. Pure.
// Thread: one at a time. Bounds: for each home `most` sessions that it has and `most` that were
// lost with it, and for each of the two `bytes_max` bytes, a session being its name and
// `entry_bytes`. Source: docs/CLUSTER.md, "Several homes".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/ids.h"

namespace sluice {

class SessionGrants {
 public:
  static constexpr std::size_t bytes_max = std::size_t{256} << 20U;
  static constexpr std::size_t entry_bytes = 128;

  enum class Answer : std::uint8_t {
    granted,    // `home`: whose life it was lost with; incarnation 0: nobody's
    elsewhere,  // `home` has it
    full,       // the home that asks has as many as may be
  };
  struct Reply {
    Answer answer = Answer::granted;
    Origin home{0, 0};
  };

  SessionGrants(std::size_t machines, std::size_t most) : most_(most), homes_(machines) {}

  /// Requires: this life of a home is there. One that has the session is granted it again.
  Reply ask(Origin home, const std::string& session) {
    Home& asking = homes_[home.machine];
    const auto known = grants_.find(session);
    const bool is_known = known != grants_.end();
    if (is_known && is_held(known->second)) {
      if (known->second == home) return {Answer::granted, {0, 0}};
      return {Answer::elsewhere, known->second};
    }
    if (!asking.held.has_room(session, most_)) return {Answer::full, {0, 0}};
    asking.held.add(session);
    if (!is_known) {
      grants_.emplace(session, home);
      return {Answer::granted, {0, 0}};
    }
    const Origin before = known->second;
    homes_[before.machine].lost.remove(session);
    known->second = home;
    return {Answer::granted, before};
  }
  /// It has ended. False: this life does not have it.
  bool give_back(Origin home, const std::string& session) {
    const auto known = grants_.find(session);
    if (known == grants_.end() || known->second != home || !is_held(home)) return false;
    homes_[home.machine].held.remove(session);
    grants_.erase(known);
    return true;
  }
  /// It takes its leave, and has ended all that it had.
  void left(Origin home) {
    if (!is_held(home)) return;
    std::erase_if(grants_, [&](const auto& grant) { return grant.second == home; });
    homes_[home.machine].held = {};
  }
  /// This life of a home is over, and those before it. Returns how many sessions of its earlier
  /// lives are forgotten, for want of room: nobody will be told that they were lost.
  std::size_t lost(Origin home) {
    Home& gone = homes_[home.machine];
    if (home.incarnation <= gone.over) return 0;
    const std::uint32_t over_before = gone.over;
    gone.over = home.incarnation;
    Count both{gone.held.sessions + gone.lost.sessions, gone.held.bytes + gone.lost.bytes};
    gone.held = {};
    if (both.sessions <= most_ && both.bytes <= bytes_max) {
      gone.lost = both;
      return 0;
    }
    const std::size_t forgotten = std::erase_if(grants_, [&](const auto& grant) {
      const bool is_old =
          grant.second.machine == home.machine && grant.second.incarnation <= over_before;
      if (is_old) both.remove(grant.first);
      return is_old;
    });
    gone.lost = both;
    return forgotten;
  }

  /// That the home has.
  std::size_t count(std::uint32_t home) const { return homes_[home].held.sessions; }
  /// All that is remembered.
  std::size_t size() const { return grants_.size(); }

 private:
  struct Count {
    std::size_t sessions = 0;
    std::size_t bytes = 0;

    static std::size_t size_of(const std::string& session) { return session.size() + entry_bytes; }
    bool has_room(const std::string& session, std::size_t most) const {
      return sessions < most && bytes + size_of(session) <= bytes_max;
    }
    void add(const std::string& session) {
      ++sessions;
      bytes += size_of(session);
    }
    void remove(const std::string& session) {
      --sessions;
      bytes -= size_of(session);
    }
  };
  struct Home {
    std::uint32_t over = 0;  // lives up to this one are
    Count held, lost;        // lost: with its lives that are over
  };

  bool is_held(Origin home) const { return home.incarnation > homes_[home.machine].over; }

  std::size_t most_;
  std::vector<Home> homes_;  // by machine
  std::unordered_map<std::string, Origin> grants_;
};

}  // namespace sluice
