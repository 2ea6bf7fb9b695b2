#include "runtime/sim/faults.h"

namespace sluice::sim {

using namespace std::chrono_literals;

Faults all_faults() {
  return {.role_failure = 0.01,
          .role_hang = 0.005,
          .caller_cancel = 0.1,
          .duplicate = 0.05,
          .link_break = 0.1,
          .pause = 0.15,
          .kill = 0.05,
          .cut = 0.05,
          .suspect = 0.03,
          .slow = 0.02,
          .hurry = 0.2,
          .hostile = 0.5,
          .drift_ppm = 1000,
          .until = 400ms};
}

void FaultCounts::add(const FaultCounts& other) {
  role_failures += other.role_failures;
  role_hangs += other.role_hangs;
  cancels += other.cancels;
  duplicates += other.duplicates;
  link_breaks += other.link_breaks;
  pauses += other.pauses;
  kills += other.kills;
  resent += other.resent;
  fenced += other.fenced;
  cuts += other.cuts;
  cuts_one_way += other.cuts_one_way;
  suspects += other.suspects;
  homes_lost += other.homes_lost;
  hurried += other.hurried;
  forged += other.forged;
  forged_refused += other.forged_refused;
  slowed += other.slowed;
  stopped += other.stopped;
  held += other.held;
  refused += other.refused;
  dropped += other.dropped;
  moved += other.moved;
}

std::string FaultCounts::text() const {
  const auto line = [](const char* what, std::uint64_t count) {
    return "  " + std::to_string(count) + " " + what + "\n";
  };
  return line("roles failed", role_failures) + line("roles hung", role_hangs) +
         line("callers gave up", cancels) + line("messages came twice", duplicates) +
         line("links broke", link_breaks) + line("messages were sent again", resent) +
         line("machines paused", pauses) + line("machines lost everything", kills) +
         line("late messages were dropped", fenced) + line("links were cut both ways", cuts) +
         line("links were cut one way", cuts_one_way) +
         line("machines were given up alive", suspects) + line("homes were lost", homes_lost) +
         line("calls had their own deadline", hurried) + line("messages were forged", forged) +
         line("forged messages were refused", forged_refused) + line("roles were slow", slowed) +
         line("roles waited for a window", stopped) + line("calls waited for a window", held) +
         line("calls were refused", refused) + line("inputs were dropped for newer ones", dropped) +
         line("sessions moved to another machine", moved);
}

}  // namespace sluice::sim
