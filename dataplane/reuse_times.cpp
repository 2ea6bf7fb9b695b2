#include "dataplane/reuse_times.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice {
namespace {

constexpr double lean = 10;                // observations that the evidence of others counts for
constexpr double lean_factor = 100;        // that no detail matters counts for
constexpr double lean_class = 1000;        // that a class is as its details say counts for
constexpr std::uint32_t reach = 2;         // steps that lend each other evidence, all but the first
constexpr std::uint64_t memory = 1 << 18;  // returns after which counts are halved

constexpr std::uint32_t none = 32;  // no factor

/// The factor of a class's first or second detail. Details mean the same within a band: blocks used
/// once, twice, three or four times, more often.
std::uint32_t factor_of(std::uint32_t kind, std::uint32_t which) {
  const std::uint32_t group = kind / reuse_details, detail = kind % reuse_details;
  const std::uint32_t band = group < reuse_paired ? group / 2 : group < 2 * reuse_paired ? 2 : 3;
  if (group < reuse_paired) return 8 * band + (which == 0 ? detail / 4 : 4 + detail % 4);
  return which == 0 && is_reuse_class(kind) ? 8 * band + detail : none;
}

}  // namespace

void ReuseTimes::fade() {
  returns_ /= 2;
  for (Evidence& seen : seen_)
    for (std::uint32_t step = 0; step < reuse_ages; ++step) {
      seen.idle[step] /= 2;
      seen.again[step] /= 2;
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
/// rates `on`, scaled by how many returns there were for each that they promised, which count for
/// `weight` observations.
ReuseTimes::Steps ReuseTimes::leaning(const Evidence& seen, const Steps& on, double weight) {
  double returns = weight, promised = weight;
  for (std::uint32_t step = 0; step < reuse_ages; ++step) {
    returns += seen.again[step];
    promised += seen.idle[step] * on[step];
  }
  Steps idle, again, rates;
  idle.fill(weight);
  for (std::uint32_t step = 0; step < reuse_ages; ++step)
    again[step] = weight * on[step] * returns / promised;
  // Zeros beyond the ends, and for the first step, which neither lends nor borrows.
  std::array<double, reuse_ages + 2 * reach> near_idle{}, near_again{};
  std::copy(seen.idle.begin() + 1, seen.idle.end(), near_idle.begin() + 1 + reach);
  std::copy(seen.again.begin() + 1, seen.again.end(), near_again.begin() + 1 + reach);
  for (std::uint32_t at = 0; at <= 2 * reach; ++at) {
    const double share = 1 - std::abs(static_cast<double>(at) - reach) / (1 + reach);
    for (std::uint32_t step = 0; step < reuse_ages; ++step) {
      idle[step] += share * near_idle[step + at];
      again[step] += share * near_again[step + at];
    }
  }
  idle[0] = weight + seen.idle[0];
  again[0] = weight * on[0] * returns / promised + seen.again[0];
  for (std::uint32_t step = 0; step < reuse_ages; ++step) rates[step] = again[step] / idle[step];
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

void ReuseTimes::learn_groups() {
  const Steps any = shape();
  for (std::uint32_t group = 0; group < reuse_groups; ++group) {
    Evidence all;
    for (std::uint32_t detail = 0; detail < reuse_details; ++detail)
      for (std::uint32_t step = 0; step < reuse_ages; ++step) {
        const Evidence& seen = seen_[group * reuse_details + detail];
        all.idle[step] += seen.idle[step];
        all.again[step] += seen.again[step];
      }
    groups_[group] = leaning(all, any, lean);
  }
}

ReuseTimes::Steps ReuseTimes::promised(std::uint32_t kind, std::uint32_t but) const {
  Steps rates = groups_[kind / reuse_details];
  for (std::uint32_t which = 0; which < 2; ++which) {
    const std::uint32_t factor = factor_of(kind, which);
    if (which == but || factor == none) continue;
    for (std::uint32_t step = 0; step < reuse_ages; ++step) rates[step] *= factors_[factor][step];
  }
  return rates;
}

void ReuseTimes::learn_factors(std::uint32_t which) {
  std::array<Evidence, none> seen{};
  std::array<bool, none> is_there{};
  for (std::uint32_t kind = 0; kind < reuse_classes; ++kind) {
    const std::uint32_t factor = factor_of(kind, which);
    if (factor == none) continue;
    is_there[factor] = true;
    const Steps on = promised(kind, which);
    for (std::uint32_t step = 0; step < reuse_ages; ++step) {
      seen[factor].idle[step] += seen_[kind].idle[step] * on[step];
      seen[factor].again[step] += seen_[kind].again[step];
    }
  }
  Steps ones;
  ones.fill(1);
  for (std::uint32_t factor = 0; factor < none; ++factor)
    if (is_there[factor]) factors_[factor] = leaning(seen[factor], ones, lean_factor);
}

void ReuseTimes::learn() {
  if (returns_ >= memory) fade();
  learn_groups();
  for (Steps& factor : factors_) factor.fill(1);
  for (const std::uint32_t which : {0, 1, 0, 1}) learn_factors(which);
  for (std::uint32_t kind = 0; kind < reuse_classes; ++kind)
    if (is_reuse_class(kind))
      rank_[kind] = ranks(leaning(seen_[kind], promised(kind, 2), lean_class));
}

}  // namespace sluice
