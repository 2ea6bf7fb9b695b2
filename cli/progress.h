// A line on standard error about work that takes more than two seconds, and standard output beside
// it, so that neither splits the other's lines.
//
// Thread: any; the clock runs on a thread of its own, which waits, never sleeps.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "cli/progress_line.h"

namespace sluice::cli {

class Progress {
 public:
  Progress();
  /// Takes the line away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// What is going on now; shown once it has taken two seconds. Empty: nothing, the line goes.
  void show(std::string what);
  /// To standard output, at once.
  void write(std::string_view text);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  ProgressLine line_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace sluice::cli
