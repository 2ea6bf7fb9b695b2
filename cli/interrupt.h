// Ctrl-C as an event that can be waited for together with other descriptors, so that none is lost
// between a question and a wait.
//
// Thread: at most one Interrupts exists at a time; what it was before is restored behind it.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>

namespace sluice::cli {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Readable from a Ctrl-C until `take`.
  int descriptor() const { return event_; }
  /// Whether Ctrl-C was pressed since the last call.
  bool take();

 private:
  int event_;
  struct sigaction before_ {};
};

/// Asks what runs to stop at the first Ctrl-C, from a thread of its own; from then on another one
/// ends the program.
class StopOnInterrupt {
 public:
  explicit StopOnInterrupt(std::function<void()> stop);
  ~StopOnInterrupt();

 private:
  void watch(const std::function<void()>& stop);

  Interrupts interrupts_;
  int done_;
  std::thread thread_;
};

}  // namespace sluice::cli
