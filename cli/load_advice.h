// What `sluice simulate` advises where calls of a load fail by their deadline or with a machine.
//
// The advice follows from counts. Whether fewer calls at once would help is not guessed: the
// caller simulates some calls one at a time too, and says how many of those were late.
//
// Pure. Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::cli {

struct LoadCounts {
  std::uint64_t calls = 0;  // of all seeds
  std::uint64_t failed = 0;
  std::uint64_t late = 0;  // failed by the deadline of the workflow or of the call
  std::uint64_t lost = 0;  // failed with a machine that is away or gone
  bool overlap = false;    // two calls of a seed were under way at once
};

enum class Load : std::uint8_t {
  alone,     // one call, of each seed
  in_turn,   // one call at a time
  together,  // all calls of a seed at the same moment
  closed,    // the next one comes as one ends
  open,      // so many a second
};

struct LateAlone {  // of calls that were simulated one at a time
  std::uint64_t calls = 0;
  std::uint64_t late = 0;
};

/// Deadlines are what most failed calls failed by, without faults and beside other calls: what
/// calls do one at a time decides what is advised.
bool asks_about_one_at_a_time(const LoadCounts& counts, Load load, bool faults);

/// Empty: nothing is advised. `alone` is looked at where `asks_about_one_at_a_time`.
std::string load_advice(const LoadCounts& counts, Load load, bool faults, const LateAlone& alone);

}  // namespace sluice::cli
