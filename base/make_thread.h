// A thread, or why there can be none: a system has so many for a user, a control group and itself.
//
// Thread: any. Errors: exhausted.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/result.h"

namespace sluice {

/// `what`: it is for, in words: "a lane".
template <typename Work>
Result<std::thread> make_thread(const std::string& what, Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return Error{ErrorCode::exhausted,
                 "the thread of " + what + " cannot be made (" + error.code().message() +
                     "): a process has one for each lane and each workflow, and limits are those "
                     "of the user (ulimit -u), the control group (pids.max) and the system "
                     "(kernel.pid_max, kernel.threads-max)"};
  }
}

}  // namespace sluice
