// A call's outputs for a thread that waits for them: what `Runner::call` and a terminal do.
//
// Thread: the observer is told by the runner's threads; `wait` is for one thread of the caller's.
#pragma once

#include <memory>

#include "runtime/runner.h"

namespace sluice {

class CallStream {
 public:
  CallStream();
  /// Give it to `Runner::start`; it may outlive the stream.
  CallObserver observer() const;
  /// Passes on outputs as they come, on this thread, until the outcome. Once.
  CallOutcome wait(const OnOutput& on_output);

 private:
  struct Told;
  std::shared_ptr<Told> told_;
};

}  // namespace sluice
