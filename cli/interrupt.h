// Ctrl-C while something runs: the first one asks it to stop, a second one ends the program.
//
// Thread: what to stop is called on a thread of its own. At most one exists at a time. Restores
// what Ctrl-C did before.
#pragma once

#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

namespace sluice::cli {

class Interrupt {
 public:
  explicit Interrupt(std::function<void()> stop);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  static void on_signal(int);

  std::function<void()> stop_;
  std::atomic<bool> done_{false};
  struct sigaction before_ {};
  std::thread thread_;
};

}  // namespace sluice::cli
