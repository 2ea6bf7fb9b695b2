#include "cli/load_advice.h"

#include <algorithm>
#include <cmath>

#include "base/count_text.h"

namespace sluice::cli {

namespace {

bool is_late(const LoadCounts& counts) { return 2 * counts.late > counts.failed; }

/// Whether calls by themselves are late as often as under the load: but for a tenth of it, or for
/// what chance makes of so few (two standard errors).
bool is_as_often(const LoadCounts& counts, const LateAlone& alone) {
  if (alone.late == 0) return false;
  const auto all = static_cast<double>(counts.calls);
  const auto some = static_cast<double>(alone.calls);
  const double loaded = static_cast<double>(counts.late) / all;
  const double once = static_cast<double>(alone.late) / some;
  const double both = static_cast<double>(counts.late + alone.late) / (all + some);
  return loaded - once <=
         std::max(0.1 * loaded, 2 * std::sqrt(both * (1 - both) * (1 / all + 1 / some)));
}

std::string late_advice(const LoadCounts& counts, Load load, const LateAlone& alone) {
  if (load == Load::alone)
    return "no other call is beside it: a call by itself takes longer than its deadline";
  if (!counts.overlap)
    return "no two calls are under way at once: those that fail take longer than their deadline by "
           "themselves";
  const std::string in_turn = "one at a time " + std::to_string(alone.late) + " of " +
                              count_text(alone.calls, "call") +
                              (alone.late == 1 ? " is late" : " are late");
  if (is_as_often(counts, alone))
    return in_turn +
           " too: fewer at once do not help, calls by themselves take longer than their "
           "deadline";
  if (10 * alone.late * counts.calls >= counts.late * alone.calls)  // a tenth of it, and more
    return in_turn +
           " too: fewer at once, or spread, help some calls, others take longer than "
           "their deadline by themselves";
  if (load == Load::together)
    return "all calls come at the same moment, " + in_turn +
           ": a smaller --concurrency, or a low --rate, spreads them";
  if (load == Load::closed)
    return "more calls are under way at once than can end within their deadline, " + in_turn +
           ": a smaller --concurrency, or a low --rate";
  return "calls come faster than they can end within their deadline, " + in_turn +
         ": a lower --rate";
}

}  // namespace

bool asks_about_one_at_a_time(const LoadCounts& counts, Load load, bool faults) {
  return !faults && is_late(counts) && load != Load::alone && counts.overlap;
}

std::string load_advice(const LoadCounts& counts, Load load, bool faults, const LateAlone& alone) {
  if (is_late(counts) && !faults) return late_advice(counts, load, alone);
  if (is_late(counts))
    return "--faults lets machines pause and roles hang and shortens deadlines, which ends calls "
           "however few come at once; without it the load alone shows";
  if (2 * counts.lost <= counts.calls) return "";
  if (load == Load::together)
    return "all calls come at the same moment, so most meet the same machines that are away; a low "
           "--rate spreads them";
  if (load == Load::closed || load == Load::in_turn)
    return "a call that fails at once makes room for the next, which meets the same machine that "
           "is away; a low --rate spreads them";
  return "";
}

}  // namespace sluice::cli
