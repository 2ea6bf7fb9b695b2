// When a call must end for its caller, whatever its roles and its engines do.
//
// A call past its deadline is told to stop; one that was told and has not ended within the grace is
// given up: its caller hears so, and what still runs of it is dropped when it comes. Pure: time is
// an argument. Thread: the owner's lock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/frame.h"

namespace sluice {

class CallWatch {
 public:
  enum class What : std::uint8_t {
    stop,     // its deadline has passed: tell what runs
    give_up,  // nothing has helped: end it for its caller
  };
  struct Decision {
    std::uint64_t call = 0;
    What what = What::stop;
  };

  explicit CallWatch(Instant grace) : grace_(grace) {}

  void opened(std::uint64_t call, Instant deadline) { arm(call, {deadline, What::stop}); }
  /// The caller no longer wants it. Told twice, the first time counts.
  void cancelled(std::uint64_t call, Instant now) {
    const auto it = next_.find(call);
    if (it != next_.end() && it->second.what == What::stop)
      arm(call, {now + grace_, What::give_up});
  }
  void ended(std::uint64_t call) {
    const auto it = next_.find(call);
    if (it == next_.end()) return;
    due_.erase({it->second.at, call});
    next_.erase(it);
  }
  /// Appends what is to be done by `now`; a call that is given up is forgotten.
  void due(Instant now, std::vector<Decision>& decisions) {
    while (!due_.empty() && due_.begin()->first <= now) {
      const std::uint64_t call = due_.begin()->second;
      const What what = next_.at(call).what;
      decisions.push_back({call, what});
      if (what == What::stop)
        arm(call, {now + grace_, What::give_up});
      else
        ended(call);
    }
  }
  /// When `due` is next to be asked; Instant::max() when there is no call.
  Instant next() const { return due_.empty() ? Instant::max() : due_.begin()->first; }
  std::size_t size() const { return next_.size(); }

 private:
  struct Step {
    Instant at{};
    What what = What::stop;
  };

  void arm(std::uint64_t call, Step step) {
    ended(call);
    next_.emplace(call, step);
    due_.emplace(step.at, call);
  }

  Instant grace_;
  std::map<std::uint64_t, Step> next_;
  std::set<std::pair<Instant, std::uint64_t>> due_;
};

}  // namespace sluice
