// Which sessions ended a moment ago: their names may still come, by a machine that has not heard.
//
// Thread: whoever drives. Cost: constant; the last `most` are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_set>

namespace sluice {

class EndedSessions {
 public:
  static constexpr std::size_t most = 4096;

  void add(std::uint64_t session) {
    if (!known_.insert(session).second) return;
    order_.push_back(session);
    if (order_.size() <= most) return;
    known_.erase(order_.front());
    order_.pop_front();
  }
  bool contains(std::uint64_t session) const { return known_.contains(session); }

 private:
  std::unordered_set<std::uint64_t> known_;
  std::deque<std::uint64_t> order_;
};

}  // namespace sluice
