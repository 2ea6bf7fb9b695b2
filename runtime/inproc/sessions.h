// The sessions of all workflows that run together: one name is one session, with one number.
//
// Thread: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Stays where it is while a call of it is under way.
struct SessionRecord {
  std::uint64_t number = 0;  // of no other session, ever: keeps it on one replica
  std::size_t calls = 0;     // under way
  bool ending = false;       // what is held of it is being dropped; its next call waits for that
  bool is_over = false;      // no call of it begins before it has ended
};

class Sessions {
 public:
  SessionRecord& call_begins(const std::string& session) {
    std::unique_lock held(mutex_);
    wait_for_end(held, session);
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
  std::vector<std::string> names() {
    const std::lock_guard held(mutex_);
    std::vector<std::string> all;
    for (const auto& [name, record] : sessions_) all.push_back(name);
    return all;
  }
  /// It is to end as soon as no call of it is under way; until then none begins.
  void set_over(const std::string& session) {
    const std::lock_guard held(mutex_);
    if (const auto it = sessions_.find(session); it != sessions_.end()) it->second.is_over = true;
  }
  bool is_over(const std::string& session) {
    const std::lock_guard held(mutex_);
    const auto it = sessions_.find(session);
    return it != sessions_.end() && it->second.is_over;
  }
  /// Forgets the session after `drop()`, which may take its time: only calls of the same session
  /// wait for it. Returns its calls under way; when there are any, nothing was done.
  template <typename Drop>
  std::size_t end(const std::string& session, Drop drop) {
    std::unique_lock held(mutex_);
    wait_for_end(held, session);
    const auto [it, added] = sessions_.try_emplace(session);
    if (added) it->second.number = next_session_++;
    if (it->second.calls > 0) return it->second.calls;
    it->second.ending = true;
    held.unlock();
    drop();
    held.lock();
    sessions_.erase(it);
    ended_.notify_all();
    return 0;
  }
  /// Of no other call, in any of the workflows; from 1.
  std::uint64_t new_call_number() { return next_call_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void wait_for_end(std::unique_lock<std::mutex>& held, const std::string& session) {
    ended_.wait(held, [&] {
      const auto it = sessions_.find(session);
      return it == sessions_.end() || !it->second.ending;
    });
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, SessionRecord> sessions_;  // those that have not ended
  std::uint64_t next_session_ = 0;
  std::atomic<std::uint64_t> next_call_{1};
};

}  // namespace sluice
