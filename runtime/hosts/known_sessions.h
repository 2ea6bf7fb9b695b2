// Which sessions a role host was used for, and in which of its lives each was last.
//
// Bounds: so many sessions; of more, the one that was used longest ago is forgotten.
// Thread: one at a time. Cost: logarithmic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace sluice::hosts {

class KnownSessions {
 public:
  explicit KnownSessions(std::size_t most) : most_(most) {}

  /// The session is used in a life. True when its last life was another.
  bool used(std::string_view session, std::uint64_t life);
  /// That it was lost has reached nobody: its next use is told so too, in whatever life.
  void still_lost(std::string_view session);
  void forget(std::string_view session);
  std::size_t size() const { return sessions_.size(); }

 private:
  struct Last {
    std::uint64_t life = 0;  // lives are numbered from 1; 0: in none that anybody was told of
    std::uint64_t use = 0;  // its number among all uses
  };

  std::size_t most_;
  std::uint64_t uses_ = 0;
  std::map<std::string, Last, std::less<>> sessions_;
  std::map<std::uint64_t, std::string> by_use_;  // the oldest first
};

}  // namespace sluice::hosts
