// Draws a text again and again, for `--watch`.
//
// On a terminal each draws over the one before; elsewhere they stand one after the other. Thread:
// one.
#pragma once

#include <functional>
#include <string>

namespace sluice::cli {

struct Watch {
  std::function<std::string()> draw;              // what is so now
  std::function<bool(const std::string&)> write;  // false: nobody reads it any more
  std::function<bool()> wait;                     // until the next one; false: told to end
};

/// Draws at once, then after each wait.
void watch(const Watch& watch, bool is_terminal);

/// Once a second on standard output, until Ctrl-C or until its reader has gone, which are good
/// ends. Returns the program's status: 1 where the output cannot be written otherwise, which it
/// says.
int watch_here(const std::function<std::string()>& draw);

}  // namespace sluice::cli
