// A warning for whoever hears of a call. Thread: any.
#pragma once

#include <string>
#include <utility>

#include "runtime/runner.h"

namespace sluice {

/// One whose outcome has this warning too, before the others.
inline CallObserver warned(CallObserver observer, std::string warning) {
  auto on_end = std::move(observer.on_end);
  observer.on_end = [on_end = std::move(on_end),
                     warning = std::move(warning)](CallOutcome outcome) {
    outcome.warnings.insert(outcome.warnings.begin(), warning);
    if (on_end) on_end(std::move(outcome));
  };
  return observer;
}

}  // namespace sluice
