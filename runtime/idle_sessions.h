// Which sessions are to end because nobody has called them for a while (`limits: session_idle`).
//
// Counts the calls of each session, and says when the time since the last one is over. Pure: time
// is an argument. Thread: one at a time. Bounds: sessions that have not ended, and `told_most` that
// ended so and were not called since.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace sluice {

class IdleSessions {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Span = std::chrono::milliseconds;
  static constexpr std::size_t told_most = 4096;

  void call_begins(const std::string& session) {
    Record& record = records_[session];
    ++record.calls;
    disarm(session, record);
  }
  /// The session may be without a call for `limit`; zero: for ever. `was_let_in`: something may be
  /// kept of it now. Returns after how long without a call it had ended before this one, once.
  std::optional<Span> call_ended(const std::string& session, Span limit, bool was_let_in,
                                 Time now) {
    Record& record = records_[session];
    record.is_kept = record.is_kept || was_let_in;
    --record.calls;
    if (record.calls == 0) arm(session, limit, now);
    return was_let_in ? take_told(session) : std::nullopt;
  }

  /// When the next one is due; `Time::max()`: none is.
  Time next() const { return due_.empty() ? Time::max() : due_.begin()->first; }
  /// One whose time is over: it is to end now, and `ended` says how that went.
  std::optional<std::string> take_due(Time now) {
    if (due_.empty() || due_.begin()->first > now) return std::nullopt;
    std::string session = due_.begin()->second;
    disarm(session, records_[session]);
    return session;
  }
  /// False: a call of it is under way, here or in a workflow beside this one.
  void ended(const std::string& session, bool is_over, Time now) {
    const auto found = records_.find(session);
    if (found == records_.end()) return;
    Record& record = found->second;
    if (!is_over) {
      if (record.calls == 0) arm(session, record.limit, now);
      return;
    }
    if (std::exchange(record.is_kept, false)) remember(session, record.limit);
    if (record.calls == 0) records_.erase(found);
  }
  /// Somebody else has ended it: nobody need be told.
  void forget(const std::string& session) {
    take_told(session);
    const auto found = records_.find(session);
    if (found == records_.end()) return;
    disarm(session, found->second);
    found->second.is_kept = false;
    if (found->second.calls == 0) records_.erase(found);
  }
  std::size_t size() const { return records_.size(); }

 private:
  struct Record {
    std::size_t calls = 0;  // under way
    Span limit{0};          // of the last call that ended
    Time due = Time::max();
    bool is_kept = false;
  };

  void arm(const std::string& session, Span limit, Time now) {
    if (limit.count() == 0) {
      records_.erase(session);
      return;
    }
    Record& record = records_[session];
    record.limit = limit;
    record.due = now + limit;
    due_.insert({record.due, session});
  }
  void disarm(const std::string& session, Record& record) {
    if (record.due == Time::max()) return;
    due_.erase({record.due, session});
    record.due = Time::max();
  }
  void remember(const std::string& session, Span limit) {
    if (!told_.insert_or_assign(session, limit).second) return;
    order_.push_back(session);
    while (order_.size() > told_most) {
      told_.erase(order_.front());
      order_.pop_front();
    }
  }
  std::optional<Span> take_told(const std::string& session) {
    const auto found = told_.find(session);
    if (found == told_.end()) return std::nullopt;
    const Span limit = found->second;
    told_.erase(found);
    return limit;
  }

  std::map<std::string, Record> records_;  // with a call under way, or due
  std::set<std::pair<Time, std::string>> due_;
  std::map<std::string, Span> told_;  // ended so
  std::deque<std::string> order_;     // of those; some were told, or stand here twice
};

}  // namespace sluice
