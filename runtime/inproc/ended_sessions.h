// Which sessions ended a moment ago: their names may still come, by a machine that has not heard.
//
// Thread: whoever drives. Cost: constant; the last `most` are known.
#pragma once

#include <cstddef>
#include <deque>
#include <unordered_set>

#include "graph/ids.h"

namespace sluice {

class EndedSessions {
 public:
  static constexpr std::size_t most = 4096;

  void add(const SessionId& session) {
    if (!known_.insert(session).second) return;
    order_.push_back(session);
    if (order_.size() <= most) return;
    known_.erase(order_.front());
    order_.pop_front();
  }
  bool contains(const SessionId& session) const { return known_.contains(session); }

 private:
  struct Hash {
    std::size_t operator()(const SessionId& session) const { return spread(session, Mix{}); }
  };
  std::unordered_set<SessionId, Hash> known_;
  std::deque<SessionId> order_;
};

}  // namespace sluice
