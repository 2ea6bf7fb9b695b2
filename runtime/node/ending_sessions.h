// The sessions of other homes that are to end on this machine: each home's in their order, on a
// thread of its own, so none waits for another home's.
//
// Thread: any. Owns: a thread for each home of which a session ended. Cost: that of a hash of the
// name.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace sluice {

class EndingSessions {
 public:
  /// On a home's thread: `end` drops what roles hold of the session, which may take long; `ended`
  /// follows, when it is no longer ending.
  EndingSessions(std::size_t machines, std::function<void(const std::string&)> end,
                 std::function<void(std::uint32_t home)> ended);
  ~EndingSessions() { stop(); }

  void add(std::uint32_t home, std::string session);
  bool is_ending(std::uint32_t home, const std::string& session) const;
  bool is_ending_of(std::uint32_t home) const;
  bool is_ending_any() const;
  /// Waits for those that have begun, and begins no other. Before what `ended` uses is gone.
  void stop();

 private:
  struct Home {
    std::deque<std::string> order;                       // the first one has begun
    std::unordered_map<std::string, std::size_t> names;  // how often each is in `order`
    std::thread thread;
  };
  void run(std::uint32_t number);

  const std::function<void(const std::string&)> end_;
  const std::function<void(std::uint32_t home)> ended_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Home> homes_;  // by machine
  bool stop_ = false;
};

}  // namespace sluice
