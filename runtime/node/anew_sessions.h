// Sessions that were lost with an earlier life of their home, until their next call says so.
//
// Thread: any. Bounds: those that a life of the home may have.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace sluice {

class AnewSessions {
 public:
  void add(std::string session) {
    const std::lock_guard lock(mutex_);
    sessions_.insert(std::move(session));
  }
  /// True once: it begins anew.
  bool take(const std::string& session) {
    const std::lock_guard lock(mutex_);
    return !sessions_.empty() && sessions_.erase(session) != 0;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> sessions_;
};

}  // namespace sluice
