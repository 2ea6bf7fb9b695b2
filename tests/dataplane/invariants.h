// Invariants of the pool by name (docs/POOL.md lists them): which of them are broken.
//
// A broken one is said once, at once, for what follows may end the program; the test goes on for a
// while and fails at its end, so that each that a mistake breaks is named. Thread: one.
#pragma once

#include <cstdio>
#include <set>
#include <string>

namespace sluice {

class Invariants {
 public:
  /// `name`: "K7".
  void must(const char* name, bool holds) {
    if (holds || !broken_.insert(name).second) return;
    std::printf("broken invariant: %s\n", name);
    std::fflush(stdout);
  }
  /// After the first that is broken as many events as show what else is.
  bool goes_on() { return broken_.empty() || ++events_since_ < 200; }
  bool all_hold() const { return broken_.empty(); }
  std::string broken() const {
    std::string list;
    for (const std::string& name : broken_) list += (list.empty() ? "" : ", ") + name;
    return list;
  }

 private:
  std::set<std::string> broken_;
  int events_since_ = 0;
};

}  // namespace sluice
