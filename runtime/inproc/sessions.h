// The sessions of all workflows that run together: one name is one session, with one number.
//
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace sluice {

/// Stays where it is while a call of it is under way.
struct SessionRecord {
  std::uint64_t number = 0;  // of no other session, ever: keeps it on one replica
  std::size_t calls = 0;     // under way
};

class Sessions {
 public:
  SessionRecord& call_begins(const std::string& session) {
    const std::lock_guard held(mutex_);
    const auto [it, added] = sessions_.try_emplace(session);
    if (added) it->second.number = next_session_++;
    ++it->second.calls;
    return it->second;
  }
  void call_ended(SessionRecord& session) {
    const std::lock_guard held(mutex_);
    --session.calls;
  }
  /// Of a session that is known.
  std::optional<std::uint64_t> number_of(const std::string& session) {
    const std::lock_guard held(mutex_);
    const auto it = sessions_.find(session);
    if (it == sessions_.end()) return {};
    return it->second.number;
  }
  /// Forgets the session after `drop()`. Returns its calls under way; when there are any, nothing
  /// was done.
  template <typename Drop>
  std::size_t end(const std::string& session, Drop drop) {
    const std::lock_guard held(mutex_);
    const auto it = sessions_.find(session);
    if (it != sessions_.end() && it->second.calls > 0) return it->second.calls;
    drop();
    if (it != sessions_.end()) sessions_.erase(it);
    return 0;
  }
  /// Of no other call, in any of the workflows; from 1.
  std::uint64_t new_call_number() { return next_call_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::mutex mutex_;
  std::map<std::string, SessionRecord> sessions_;  // those that have not ended
  std::uint64_t next_session_ = 0;
  std::atomic<std::uint64_t> next_call_{1};
};

}  // namespace sluice
