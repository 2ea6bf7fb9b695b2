#include "runtime/hosts/known_sessions.h"

#include <utility>

namespace sluice::hosts {

bool KnownSessions::used(std::string_view session, std::uint64_t life) {
  auto it = sessions_.find(session);
  const bool known = it != sessions_.end();
  if (known) {
    by_use_.erase(it->second.use);
  } else {
    if (sessions_.size() >= most_) forget(std::string(by_use_.begin()->second));
    it = sessions_.emplace(session, Last{life, 0}).first;
  }
  it->second.use = ++uses_;
  by_use_.emplace(uses_, session);
  return std::exchange(it->second.life, life) != life;
}

void KnownSessions::still_lost(std::string_view session) {
  const auto it = sessions_.find(session);
  if (it != sessions_.end()) it->second.life = 0;
}

void KnownSessions::forget(std::string_view session) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  by_use_.erase(it->second.use);
  sessions_.erase(it);
}

}  // namespace sluice::hosts
