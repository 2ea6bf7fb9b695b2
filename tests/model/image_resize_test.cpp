// Pictures of any shape in a square, beside the filter's definition in double precision.
#include "engine/picture/image_resize.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/random.h"

using namespace sluice;

namespace {

Tensor picture(std::size_t height, std::size_t width, std::uint64_t seed) {
  Tensor made = std::move(Tensor::zeros(Dtype::u8, {static_cast<std::int64_t>(height),
                                                    static_cast<std::int64_t>(width), 3}))
                    .value();
  SplitMix64 random(seed);
  for (std::uint8_t& value : made.u8()) value = static_cast<std::uint8_t>(random.next() >> 56U);
  return made;
}

/// How much of each of `from` places the place `i` of `to` has.
std::vector<double> shares(std::size_t from, std::size_t to, std::size_t i) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = scale > 1 ? scale : 1;
  std::vector<double> made(from);
  double sum = 0;
  for (std::size_t s = 0; s < from; ++s) {
    const double distance = static_cast<double>(s) + 0.5 - (static_cast<double>(i) + 0.5) * scale;
    made[s] = std::max(0.0, 1 - std::abs(distance) / reach);
    sum += made[s];
  }
  for (double& share : made) share /= sum;
  return made;
}

}  // namespace

TEST_CASE("a picture of any shape comes to lie in the middle of a square of its border's colour") {
  for (const auto& [height, width, size, rows, columns] :
       std::vector<std::array<std::size_t, 5>>{{5, 9, 8, 4, 8},
                                               {9, 5, 8, 8, 4},
                                               {3, 4, 16, 12, 16},
                                               {64, 20, 16, 16, 5},
                                               {1, 7, 4, 1, 4},
                                               {6, 6, 9, 9, 9},
                                               {40, 1, 8, 8, 1}}) {
    INFO(height << " x " << width << " to " << size);
    const Tensor from = picture(height, width, height * 100 + width);
    const Tensor made = std::move(resize_to_square(from, size)).value();
    REQUIRE(made.shape() == std::vector<std::int64_t>({static_cast<std::int64_t>(size),
                                                       static_cast<std::int64_t>(size), 3}));
    const std::size_t top = (size - rows) / 2, left = (size - columns) / 2;
    double worst = 0, sum = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      double border = 0, count = 0;
      for (std::size_t y = 0; y < height; ++y)
        for (std::size_t x = 0; x < width; ++x)
          if (y == 0 || x == 0 || y + 1 == height || x + 1 == width) {
            border += from.u8()[(y * width + x) * 3 + c];
            ++count;
          }
      for (std::size_t y = 0; y < size; ++y)
        for (std::size_t x = 0; x < size; ++x) {
          double want = border / count;
          if (y >= top && y < top + rows && x >= left && x < left + columns) {
            want = 0;
            const std::vector<double> down = shares(height, rows, y - top);
            const std::vector<double> across = shares(width, columns, x - left);
            for (std::size_t sy = 0; sy < height; ++sy)
              for (std::size_t sx = 0; sx < width; ++sx)
                want += down[sy] * across[sx] * from.u8()[(sy * width + sx) * 3 + c];
          }
          const double off = std::abs(made.u8()[(y * size + x) * 3 + c] - want);
          worst = std::max(worst, off);
          sum += off;
        }
    }
    CHECK(worst < 0.51);  // rounded to the nearest
    CHECK(sum / static_cast<double>(3 * size * size) < 0.4);
  }
}

TEST_CASE("a square of the right size stays as it is, and what is no picture is refused") {
  const Tensor same = picture(8, 8, 1);
  const Tensor made = std::move(resize_to_square(same, 8)).value();
  CHECK(std::equal(made.u8().begin(), made.u8().end(), same.u8().begin(), same.u8().end()));
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{4, 4}, {4, 4, 4}, {4, 0, 3}, {1, 4, 4, 3}}) {
    const auto refused = resize_to_square(std::move(Tensor::zeros(Dtype::u8, shape)).value(), 8);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::invalid_argument);
  }
  CHECK_FALSE(resize_to_square(Tensor::of_f32({1, 1, 3}, {0, 0, 0}), 8).ok());
}
