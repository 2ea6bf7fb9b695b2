// What can go wrong in a simulation, how often, and how often it did.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sluice::sim {

/// Which faults, and how often.
struct Faults {
  double role_failure = 0;     // an activation fails after some of its yields
  double role_hang = 0;        // an activation never ends by itself
  double caller_cancel = 0;    // a caller cancels its call while it runs
  double duplicate = 0;        // a message arrives twice
  double link_break = 0;       // a link loses what is on its way, and comes back
  double pause = 0;            // a machine stands still for a while, perhaps longer than its lease
  double kill = 0;             // a machine loses all it knows, and comes back empty
  double cut = 0;              // a link lets nothing through for a while, perhaps both ways
  double suspect = 0;          // a machine that is alive counts as lost
  double slow = 0;             // an activation takes fifty times as long
  double hurry = 0;            // a call has a shorter deadline of its own
  double hostile = 0;          // one more machine says what it should not, to each of the others
  std::int64_t drift_ppm = 0;  // clocks are off, and go wrong by up to this
  std::chrono::nanoseconds until{};  // no fault begins later: then everything must end
};

/// A little of everything, for the first 400 ms. Then there are several homes, as the seed says.
Faults all_faults();

/// How often each kind of fault really happened, and what it met.
struct FaultCounts {
  std::uint64_t role_failures = 0, role_hangs = 0, cancels = 0, duplicates = 0, link_breaks = 0,
                pauses = 0, kills = 0, resent = 0, fenced = 0, cuts = 0, cuts_one_way = 0,
                suspects = 0, homes_lost = 0, hurried = 0, forged = 0, forged_refused = 0,
                slowed = 0, stopped = 0, held = 0, refused = 0, dropped = 0, moved = 0;
  void add(const FaultCounts& other);
  std::string text() const;
};

}  // namespace sluice::sim
