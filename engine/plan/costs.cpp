#include "engine/plan/costs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {

namespace {

constexpr double kept = 0.98;        // of what is known, at each forward: halved in 34
constexpr double forwards_min = 4;   // before anything is said
constexpr double spread_min = 0.25;  // variance of rows: those of one size give no slope

}  // namespace

void Costs::learn(std::uint32_t rows, Nanoseconds took) {
  const auto x = static_cast<double>(rows);
  const auto y = static_cast<double>(took);
  count_ = count_ * kept + 1;
  x_ = x_ * kept + x;
  y_ = y_ * kept + y;
  xx_ = xx_ * kept + x * x;
  xy_ = xy_ * kept + x * y;
}

bool Costs::known() const {
  if (count_ < forwards_min * kept) return false;
  const double mean = x_ / count_;
  return xx_ / count_ - mean * mean >= spread_min;
}

Costs::Line Costs::line() const {
  const double mean_x = x_ / count_;
  const double mean_y = y_ / count_;
  const double variance = xx_ / count_ - mean_x * mean_x;
  // More rows never take less: noise that says so is not believed.
  const double slope = std::max((xy_ / count_ - mean_x * mean_y) / variance, 0.0);
  return {std::max(mean_y - slope * mean_x, 0.0), slope};
}

Nanoseconds Costs::of(std::uint32_t rows) const {
  const Line line = this->line();
  return static_cast<Nanoseconds>(line.fixed + line.slope * static_cast<double>(rows));
}

std::uint32_t Costs::rows_within(Nanoseconds time) const {
  const Line line = this->line();
  const double left = static_cast<double>(time) - line.fixed;
  if (left < 0) return 0;
  constexpr auto most = static_cast<double>(std::numeric_limits<std::uint32_t>::max());
  if (line.slope <= 0) return std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::min(std::floor(left / line.slope), most));
}

}  // namespace sluice
