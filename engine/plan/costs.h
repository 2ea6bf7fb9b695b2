// What a forward of so many rows takes, learned from those that ran.
//
// A straight line, time = fixed + rows x slope, fitted to past forwards whose weight halves every
// few dozen: a machine that gets slower, or a neighbour that goes, is learned again.
// Thread: one. Units: nanoseconds, rows.
#pragma once

#include <cstdint>

namespace sluice {

using Nanoseconds = std::int64_t;

class Costs {
 public:
  void learn(std::uint32_t rows, Nanoseconds took);
  /// False: too few forwards, or of one size only.
  bool known() const;
  /// Requires: `known`. Never below 0.
  Nanoseconds of(std::uint32_t rows) const;
  /// The most rows that take no longer; 0: not even one. Requires: `known`.
  std::uint32_t rows_within(Nanoseconds time) const;

 private:
  struct Line {
    double fixed = 0, slope = 0;
  };
  Line line() const;

  // Weighted sums over the past: of 1, x, y, x x and x y, with x in rows and y in nanoseconds.
  double count_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

}  // namespace sluice
