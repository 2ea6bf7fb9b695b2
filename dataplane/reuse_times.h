// Learns, for each class of blocks, how likely a block that was idle for so long is used again, and
// ranks (class, idle time) by the uses to be expected for a page and second.
//
// The rank is the Gittins index: the best, over all times to give up, of P(used by then) over the
// expected time until used or given up. A group leans on the shape that all have in common, scaled
// by its own ratio; a class on its group, times a factor for each of its details, which is that of
// all classes with the same detail. Thread: one. Units: milliseconds.
// Bounds: counts are halved now and then, so old habits fade. Source: Gittins 1979; Aalto, Ayesta,
// Righter 2009 for the index of an unknown duration.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace sluice {

inline constexpr std::uint32_t reuse_ages = 32;
inline constexpr std::uint32_t reuse_groups = 16;
inline constexpr std::uint32_t reuse_details = 16;  // classes of a group, one behind the other
inline constexpr std::uint32_t reuse_classes = reuse_groups * reuse_details;
/// In the first groups a class has two details of four steps, in the others one of eight.
inline constexpr std::uint32_t reuse_paired = 4;
/// The others have half as many classes.
inline constexpr bool is_reuse_class(std::uint32_t kind) {
  return kind / reuse_details < reuse_paired || kind % reuse_details < reuse_details / 2;
}

/// Two steps an octave: 0, 512, 768, 1024, 1536, ... milliseconds.
inline std::uint32_t age_step(std::uint64_t age_ms) {
  const std::uint64_t units = age_ms >> 9;
  if (units == 0) return 0;
  const auto octave = static_cast<std::uint32_t>(std::bit_width(units));
  const auto half = static_cast<std::uint32_t>((age_ms >> (octave + 7)) & 1);
  const std::uint32_t step = 2 * octave - 1 + half;
  return step < reuse_ages ? step : reuse_ages - 1;
}
/// Where a step begins.
constexpr std::uint64_t age_begin(std::uint32_t step) {
  if (step == 0) return 0;
  const std::uint64_t octave = 256ULL << ((step + 1) / 2);
  return (step + 1) % 2 ? octave + octave / 2 : octave;
}

/// Where each step ends; the last one never does.
inline constexpr std::array<std::uint64_t, reuse_ages> step_ends = [] {
  std::array<std::uint64_t, reuse_ages> ends{};
  for (std::uint32_t step = 0; step + 1 < reuse_ages; ++step) ends[step] = age_begin(step + 1);
  ends.back() = ~0ULL;
  return ends;
}();
/// Which part of a step a millisecond is, the last one being as wide as if it ended: exact, for
/// widths are powers of two.
inline constexpr std::array<double, reuse_ages> step_shares = [] {
  std::array<double, reuse_ages> shares{};
  for (std::uint32_t step = 0; step < reuse_ages; ++step)
    shares[step] = 1.0 / static_cast<double>(age_begin(step + 1) - age_begin(step));
  return shares;
}();

class ReuseTimes {
 public:
  /// A block of the class stayed idle from the age `from_ms` to the age `to_ms`. `weight`: of how
  /// many observations it is one.
  void survived(std::uint32_t kind, std::uint64_t from_ms, std::uint64_t to_ms, double weight = 1) {
    Steps& idle = seen_[kind].idle;
    for (std::uint32_t step = age_step(from_ms); from_ms < to_ms; ++step) {
      const std::uint64_t end = std::min(to_ms, step_ends[step]);
      idle[step] += weight * static_cast<double>(end - from_ms) * step_shares[step];
      from_ms = end;
    }
  }
  /// A block was used again at the age `age_ms`. Its idle time is told by `survived`.
  void returned(std::uint32_t kind, std::uint64_t age_ms, double weight = 1) {
    seen_[kind].again[age_step(age_ms)] += weight;
    ++returns_;
  }
  /// Makes `rank` new from what was learned.
  void learn();
  double rank(std::uint32_t kind, std::uint32_t step) const { return rank_[kind][step]; }

 private:
  using Steps = std::array<double, reuse_ages>;

  struct Evidence {
    Steps idle{};   // time at risk, in widths of the step
    Steps again{};  // returns
  };

  void fade();
  /// How the rate of return changes with the idle time, whatever the class: 1 is its own mean.
  Steps shape() const;
  void learn_groups();
  /// What the first or the second detail of a class multiplies its group's rates by.
  void learn_factors(std::uint32_t which);
  /// What a class leans on. `but`: without the factor of that detail.
  Steps promised(std::uint32_t kind, std::uint32_t but) const;
  static Steps leaning(const Evidence& seen, const Steps& on, double weight);
  static Steps ranks(const Steps& rates);

  std::array<Evidence, reuse_classes> seen_{};
  std::array<Steps, reuse_classes> rank_{};
  std::array<Steps, reuse_groups> groups_{};  // rates
  std::array<Steps, 32> factors_{};           // eight for each of four bands of groups
  std::uint64_t returns_ = 0;
};

}  // namespace sluice
