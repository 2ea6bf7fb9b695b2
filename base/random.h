// A small random stream from one seed: same seed, same numbers, on every machine.
//
// Source: Steele, Lea, Flood 2014 (SplitMix64); Box and Muller 1958 for `normal`.
#pragma once

#include <cmath>
#include <cstdint>

namespace sluice {

class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// In (0, 1).
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1.0p-53; }
  /// Standard normal, in pairs.
  double normal() {
    if (held_) {
      held_ = false;
      return second_;
    }
    const double radius = std::sqrt(-2 * std::log(uniform()));
    const double angle = 2 * 3.14159265358979323846 * uniform();
    second_ = radius * std::sin(angle);
    held_ = true;
    return radius * std::cos(angle);
  }

 private:
  std::uint64_t state_;
  double second_ = 0;
  bool held_ = false;
};

}  // namespace sluice
