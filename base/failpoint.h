// A named place where a test makes this process, or another, die or stand still.
//
// Nothing happens unless SLUICE_FAILPOINTS names a folder when the process starts, which only tests
// do. A file PROCESS.PLACE in it, with "SIGNAL PASSAGE [PID]" (9 19 11: kill, stop, a crash), is
// taken away at that passage of the place, counted from 1, and the signal sent. Thread: any.
// Cost: a load and a branch that is never taken.
#pragma once

#include <string_view>

namespace sluice {

/// What the files call this process; before it has threads.
void name_for_failpoints(std::string_view process);

extern const bool failpoints_are_set;
void reach_failpoint(const char* place);

inline void failpoint(const char* place) {
  if (failpoints_are_set) [[unlikely]]
    reach_failpoint(place);
}

}  // namespace sluice
