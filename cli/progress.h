// A line on standard error about work that takes more than two seconds.
//
// Thread: `show` from any thread; the clock runs on a thread of its own, which waits, never sleeps.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sluice::cli {

class Progress {
 public:
  Progress();
  /// Takes the line away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// What is going on now; shown once it has taken two seconds.
  void show(std::string what);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  std::chrono::steady_clock::time_point since_;
  bool shown_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace sluice::cli
