#include "dataplane/reuse_times.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

constexpr double lean = 10;         // observations that the other classes' evidence counts for
constexpr std::uint32_t reach = 2;  // steps that lend each other evidence, all but the first
constexpr std::uint64_t memory = 1 << 18;  // returns after which counts are halved

}  // namespace

void ReuseTimes::fade() {
  seen_ /= 2;
  for (std::uint32_t kind = 0; kind < reuse_classes; ++kind)
    for (std::uint32_t step = 0; step < reuse_ages; ++step) {
      idle_[kind][step] /= 2;
      again_[kind][step] /= 2;
    }
}

void ReuseTimes::survived(std::uint32_t kind, std::uint64_t from_ms, std::uint64_t to_ms) {
  for (std::uint32_t step = age_step(from_ms); from_ms < to_ms; ++step) {
    const std::uint64_t end = step + 1 < reuse_ages ? std::min(to_ms, age_begin(step + 1)) : to_ms;
    const std::uint64_t width = age_begin(step + 1) - age_begin(step);
    idle_[kind][step] += static_cast<double>(end - from_ms) / static_cast<double>(width);
    from_ms = end;
  }
}

std::pair<double, double> ReuseTimes::around(std::uint32_t kind, std::uint32_t step) const {
  double idle = 0, again = 0;
  const std::uint32_t first = step < 1 + reach ? std::min(step, 1u) : step - reach;
  const std::uint32_t last = step == 0 ? 0 : std::min(reuse_ages - 1, step + reach);
  for (std::uint32_t at = first; at <= last; ++at) {
    const double weight = 1 - std::abs(static_cast<double>(at) - step) / (1 + reach);
    idle += weight * idle_[kind][at];
    again += weight * again_[kind][at];
  }
  return {idle, again};
}

void ReuseTimes::learn() {
  if (seen_ >= memory) fade();
  Steps all{};
  for (std::uint32_t step = 0; step < reuse_ages; ++step) {
    double idle = 1, again = 0.05;
    for (std::uint32_t kind = 0; kind < reuse_classes; ++kind) {
      idle += idle_[kind][step];
      again += again_[kind][step];
    }
    all[step] = again / idle;
  }
  for (std::uint32_t kind = 0; kind < reuse_classes; ++kind) {
    double seen = 1, expected = 1;
    for (std::uint32_t step = 0; step < reuse_ages; ++step) {
      seen += again_[kind][step];
      expected += idle_[kind][step] * all[step];
    }
    Steps chance{};
    for (std::uint32_t step = 0; step < reuse_ages; ++step) {
      const double others = all[step] * seen / expected;
      const auto [idle, again] = around(kind, step);
      const double rate = (again + lean * others) / (idle + lean);
      chance[step] = 1 - std::exp(-rate);
    }
    for (std::uint32_t first = 0; first < reuse_ages; ++first) {
      double stays = 1, used = 0, time = 0, best = 0;
      for (std::uint32_t step = first; step < reuse_ages; ++step) {
        const auto width = static_cast<double>(age_begin(step + 1) - age_begin(step));
        time += stays * width * (1 - chance[step] / 2);
        used += stays * chance[step];
        stays *= 1 - chance[step];
        best = std::max(best, used / time);
      }
      rank_[kind][first] = best;
    }
  }
}

}  // namespace sluice
