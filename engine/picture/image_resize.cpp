#include "engine/picture/image_resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace sluice {

namespace {

/// For each target position, which source positions it mixes and how much of each.
struct Taps {
  std::vector<std::size_t> first;
  std::vector<std::vector<float>> weights;
};

Taps taps_for(std::size_t from, std::size_t to) {
  Taps taps;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(centre - reach)));
    const auto high = std::min(from, static_cast<std::size_t>(std::ceil(centre + reach)));
    std::vector<float> weights;
    double sum = 0;
    for (std::size_t s = low; s < high; ++s) {
      const double distance = std::abs(static_cast<double>(s) + 0.5 - centre) / reach;
      weights.push_back(static_cast<float>(std::max(0.0, 1.0 - distance)));
      sum += double{weights.back()};
    }
    for (float& weight : weights) weight = static_cast<float>(double{weight} / sum);
    taps.first.push_back(low);
    taps.weights.push_back(std::move(weights));
  }
  return taps;
}

std::array<std::uint8_t, 3> border_colour(const Tensor& image) {
  const auto height = static_cast<std::size_t>(image.dim(0));
  const auto width = static_cast<std::size_t>(image.dim(1));
  std::array<std::uint64_t, 3> sum{};
  std::uint64_t count = 0;
  for (std::size_t y = 0; y < height; ++y) {
    const std::size_t step = y == 0 || y + 1 == height || width < 2 ? 1 : width - 1;
    for (std::size_t x = 0; x < width; x += step, ++count)
      for (std::size_t c = 0; c < 3; ++c) sum[c] += image.u8()[(y * width + x) * 3 + c];
  }
  std::array<std::uint8_t, 3> colour{};
  for (std::size_t c = 0; c < 3; ++c)
    colour[c] = static_cast<std::uint8_t>((sum[c] + count / 2) / count);
  return colour;
}

}  // namespace

Result<Tensor> resize_to_square(const Tensor& image, std::size_t size) {
  if (image.dtype() != Dtype::u8 || image.shape().size() != 3 || image.dim(2) != 3 || image.empty())
    return invalid_argument("a picture is u8[height, width, 3], this is " + image.describe());
  const auto height = static_cast<std::size_t>(image.dim(0));
  const auto width = static_cast<std::size_t>(image.dim(1));
  if (height == size && width == size) return image;
  const double scale = static_cast<double>(size) / static_cast<double>(std::max(height, width));
  const auto side = [&](std::size_t length) {
    return std::clamp<std::size_t>(
        static_cast<std::size_t>(std::lround(static_cast<double>(length) * scale)), 1, size);
  };
  const std::size_t rows = side(height);
  const std::size_t columns = side(width);
  const Taps across = taps_for(width, columns);
  const Taps down = taps_for(height, rows);
  const std::span<const std::uint8_t> source = image.u8();

  std::vector<float> narrow(height * columns * 3);
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < columns; ++x)
      for (std::size_t t = 0; t < across.weights[x].size(); ++t)
        for (std::size_t c = 0; c < 3; ++c)
          narrow[(y * columns + x) * 3 + c] +=
              across.weights[x][t] *
              static_cast<float>(source[(y * width + across.first[x] + t) * 3 + c]);

  Result<Tensor> made = Tensor::zeros(
      Dtype::u8, {static_cast<std::int64_t>(size), static_cast<std::int64_t>(size), 3});
  if (!made.ok()) return made;
  const std::array<std::uint8_t, 3> border = border_colour(image);
  const std::span<std::uint8_t> target = made->u8();
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = border[i % 3];
  const std::size_t top = (size - rows) / 2;
  const std::size_t left = (size - columns) / 2;
  for (std::size_t y = 0; y < rows; ++y)
    for (std::size_t i = 0; i < columns * 3; ++i) {
      float value = 0;
      for (std::size_t t = 0; t < down.weights[y].size(); ++t)
        value += down.weights[y][t] * narrow[(down.first[y] + t) * columns * 3 + i];
      target[((top + y) * size + left) * 3 + i] =
          static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
    }
  return made;
}

}  // namespace sluice
