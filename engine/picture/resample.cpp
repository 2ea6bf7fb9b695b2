#include "engine/picture/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {

namespace {

constexpr int precision = 22;  // bits behind the point of a weight: 32 - 8 - 2

double sinc(double x) {
  return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

double reach_of(Filter filter) {
  return filter == Filter::bilinear ? 1 : filter == Filter::bicubic ? 2 : 3;
}

double weight_at(Filter filter, double x) {
  const double d = std::abs(x);
  if (filter == Filter::bilinear) return d < 1 ? 1 - d : 0;
  if (filter == Filter::lanczos) return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
  constexpr double a = -0.5;
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
}

/// What one value of the result is made of.
struct Taps {
  std::size_t first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Taps> taps_of(std::size_t from, std::size_t to, Filter filter) {
  std::vector<Taps> all(to);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double widened = std::max(scale, 1.0);
  const double reach = reach_of(filter) * widened;
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const double lowest = std::max(0.0, std::trunc(centre - reach + 0.5));
    const double highest = std::min(static_cast<double>(from), std::trunc(centre + reach + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (double x = lowest; x < highest; ++x) {
      weights.push_back(weight_at(filter, (x - centre + 0.5) * (1 / widened)));
      sum += weights.back();
    }
    all[i].first = static_cast<std::size_t>(lowest);
    for (const double w : weights) {
      const double whole = (sum != 0 ? w / sum : w) * (1 << precision);
      all[i].weights.push_back(static_cast<std::int32_t>(whole + (whole < 0 ? -0.5 : 0.5)));
    }
  }
  return all;
}

/// One axis: `outer` rows of `from` places of `inner` values.
std::vector<std::uint8_t> pass(const std::vector<std::uint8_t>& x, std::size_t outer,
                               std::size_t from, std::size_t to, std::size_t inner, Filter filter) {
  std::vector<std::uint8_t> y(outer * to * inner);
  const std::vector<Taps> taps = taps_of(from, to, filter);
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t i = 0; i < to; ++i)
      for (std::size_t v = 0; v < inner; ++v) {
        std::int32_t sum = 1 << (precision - 1);
        const std::uint8_t* at = &x[(o * from + taps[i].first) * inner + v];
        for (const std::int32_t weight : taps[i].weights) {
          sum += weight * *at;
          at += inner;
        }
        y[(o * to + i) * inner + v] =
            static_cast<std::uint8_t>(std::clamp(sum >> precision, 0, 255));
      }
  return y;
}

}  // namespace

Picture resample(const Picture& from, std::size_t height, std::size_t width, Filter filter) {
  Picture made = from;
  if (width != from.width) made.bytes = pass(made.bytes, from.height, from.width, width, 3, filter);
  if (height != from.height)
    made.bytes = pass(made.bytes, 1, from.height, height, width * 3, filter);
  made.height = height;
  made.width = width;
  return made;
}

std::vector<float> interpolate(const Picture& from, std::size_t height, std::size_t width) {
  struct Place {
    std::size_t a, b;
    float part;
  };
  const auto places = [](std::size_t in, std::size_t out) {
    std::vector<Place> all;
    const float scale = static_cast<float>(in) / static_cast<float>(out);
    for (std::size_t i = 0; i < out; ++i) {
      const float at = std::max(0.0F, (static_cast<float>(i) + 0.5F) * scale - 0.5F);
      const auto a = std::min(static_cast<std::size_t>(at), in - 1);
      all.push_back({a, std::min(a + 1, in - 1), at - static_cast<float>(a)});
    }
    return all;
  };
  const std::vector<Place> rows = places(from.height, height);
  const std::vector<Place> columns = places(from.width, width);
  std::vector<float> made;
  made.reserve(height * width * 3);
  for (const Place& row : rows)
    for (const Place& column : columns)
      for (std::size_t c = 0; c < 3; ++c) {
        const auto at = [&](std::size_t y, std::size_t x) {
          return static_cast<float>(from.bytes[(y * from.width + x) * 3 + c]);
        };
        const float above =
            at(row.a, column.a) * (1 - column.part) + at(row.a, column.b) * column.part;
        const float below =
            at(row.b, column.a) * (1 - column.part) + at(row.b, column.b) * column.part;
        made.push_back(above * (1 - row.part) + below * row.part);
      }
  return made;
}

}  // namespace sluice
