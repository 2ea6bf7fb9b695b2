#include "dataplane/reuse_times.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice {
namespace {

constexpr double lean = 10;                // observations that the evidence of others counts for
constexpr std::uint32_t reach = 2;         // steps that lend each other evidence, all but the first
constexpr std::uint64_t memory = 1 << 18;  // returns after which counts are halved

}  // namespace

void ReuseTimes::fade() {
  returns_ /= 2;
  for (Evidence& seen : seen_)
    for (std::uint32_t step = 0; step < reuse_ages; ++step) {
      seen.idle[step] /= 2;
      seen.again[step] /= 2;
    }
}

void ReuseTimes::survived(std::uint32_t kind, std::uint64_t from_ms, std::uint64_t to_ms) {
  for (std::uint32_t step = age_step(from_ms); from_ms < to_ms; ++step) {
    const std::uint64_t end = step + 1 < reuse_ages ? std::min(to_ms, age_begin(step + 1)) : to_ms;
    const std::uint64_t width = age_begin(step + 1) - age_begin(step);
    seen_[kind].idle[step] += static_cast<double>(end - from_ms) / static_cast<double>(width);
    from_ms = end;
  }
}

ReuseTimes::Steps ReuseTimes::shape() const {
  Steps expected{}, again{}, shape{};
  expected.fill(lean);
  again.fill(lean);
  for (const Evidence& seen : seen_) {
    const double returns = std::accumulate(seen.again.begin(), seen.again.end(), 1.0);
    const double idle = std::accumulate(seen.idle.begin(), seen.idle.end(), 1.0);
    for (std::uint32_t step = 0; step < reuse_ages; ++step) {
      expected[step] += seen.idle[step];
      again[step] += seen.again[step] * idle / returns;
    }
  }
  for (std::uint32_t step = 0; step < reuse_ages; ++step)
    shape[step] = again[step] / expected[step];
  return shape;
}

/// Rates of return from what was seen near each step, nearer ones with more weight, and from the
/// rates `on`, scaled by how many returns there were for each that they promised.
ReuseTimes::Steps ReuseTimes::leaning(const Evidence& seen, const Steps& on) {
  double returns = lean, promised = lean;
  for (std::uint32_t step = 0; step < reuse_ages; ++step) {
    returns += seen.again[step];
    promised += seen.idle[step] * on[step];
  }
  Steps rates{};
  for (std::uint32_t step = 0; step < reuse_ages; ++step) {
    double idle = lean, again = lean * on[step] * returns / promised;
    const std::uint32_t first = step < 1 + reach ? std::min(step, 1u) : step - reach;
    const std::uint32_t last = step == 0 ? 0 : std::min(reuse_ages - 1, step + reach);
    for (std::uint32_t at = first; at <= last; ++at) {
      const double weight = 1 - std::abs(static_cast<double>(at) - step) / (1 + reach);
      idle += weight * seen.idle[at];
      again += weight * seen.again[at];
    }
    rates[step] = again / idle;
  }
  return rates;
}

/// From the last step to the first: a step goes on for as long as what follows promises more.
ReuseTimes::Steps ReuseTimes::ranks(const Steps& rates) {
  struct Wait {
    double used = 0, time = 0, stays = 1;
  };
  std::array<Wait, reuse_ages> waits{};  // those that follow, the next one last
  std::size_t count = 0;
  Steps ranks{};
  for (std::uint32_t step = reuse_ages; step-- > 0;) {
    const auto width = static_cast<double>(age_begin(step + 1) - age_begin(step));
    const double stays = std::exp(-rates[step]);
    Wait wait{1 - stays, width * (1 + stays) / 2, stays};
    for (; count > 0; --count) {
      const Wait& next = waits[count - 1];
      if (next.used * wait.time < wait.used * next.time) break;
      wait = {wait.used + wait.stays * next.used, wait.time + wait.stays * next.time,
              wait.stays * next.stays};
    }
    waits[count++] = wait;
    ranks[step] = wait.used / wait.time;
  }
  return ranks;
}

void ReuseTimes::learn() {
  if (returns_ >= memory) fade();
  const Steps any = shape();
  for (std::uint32_t group = 0; group < reuse_groups; ++group) {
    const std::uint32_t first = group * reuse_details;
    Evidence all;
    for (std::uint32_t kind = first; kind < first + reuse_details; ++kind)
      for (std::uint32_t step = 0; step < reuse_ages; ++step) {
        all.idle[step] += seen_[kind].idle[step];
        all.again[step] += seen_[kind].again[step];
      }
    const Steps rates = leaning(all, any);
    for (std::uint32_t kind = first; kind < first + reuse_details; ++kind)
      rank_[kind] = ranks(leaning(seen_[kind], rates));
  }
}

}  // namespace sluice
