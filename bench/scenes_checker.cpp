#include "bench/scenes_checker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace sluice::scenes {

namespace {

constexpr std::size_t side = 64;
constexpr std::size_t component_min = 24;
constexpr int color_distance_max = 60;

struct Color {
  const char* name;
  std::array<int, 3> rgb;
};
constexpr std::array<Color, 6> palette{{{"red", {214, 48, 49}},
                                        {"green", {38, 166, 91}},
                                        {"blue", {41, 98, 214}},
                                        {"yellow", {241, 196, 15}},
                                        {"purple", {142, 68, 173}},
                                        {"orange", {230, 126, 34}}}};
constexpr std::array<const char*, 4> shapes{"circle", "square", "triangle", "star"};

/// Area over radius squared, and how far below the centre the centroid lies, over radius.
struct ShapeFacts {
  double area = 0;
  double offset = 0;
};

const std::array<ShapeFacts, 4>& facts() {
  static const std::array<ShapeFacts, 4> measured = [] {
    std::array<ShapeFacts, 4> made;
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      double inside = 0;
      double down = 0;
      for (int row = -200; row < 200; ++row) {
        for (int column = -200; column < 200; ++column) {
          const double y = (row + 0.5) / 100;
          if (signed_distance(s, (column + 0.5) / 100, y, 1) <= 0) continue;
          ++inside;
          down += y;
        }
      }
      made[s] = {inside / 10'000, down / inside};
    }
    return made;
  }();
  return measured;
}

int distance2(const std::array<int, 3>& a, const std::array<int, 3>& b) {
  int sum = 0;
  for (std::size_t c = 0; c < 3; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

std::array<int, 3> pixel(const Tensor& image, std::size_t at) {
  return {image.u8()[at * 3], image.u8()[at * 3 + 1], image.u8()[at * 3 + 2]};
}

std::array<int, 3> background(const Tensor& image) {
  std::array<std::vector<int>, 3> edge;
  for (std::size_t at = 0; at < side * side; ++at) {
    const std::size_t row = at / side;
    const std::size_t column = at % side;
    if (row != 0 && row != side - 1 && column != 0 && column != side - 1) continue;
    for (std::size_t c = 0; c < 3; ++c) edge[c].push_back(pixel(image, at)[c]);
  }
  std::array<int, 3> median{};
  for (std::size_t c = 0; c < 3; ++c) {
    std::ranges::sort(edge[c]);
    median[c] = edge[c][edge[c].size() / 2];
  }
  return median;
}

/// Of each pixel the index of its palette colour, or -1.
std::vector<int> colors_of(const Tensor& image) {
  const std::array<int, 3> ground = background(image);
  std::vector<int> colors(side * side, -1);
  for (std::size_t at = 0; at < colors.size(); ++at) {
    const std::array<int, 3> rgb = pixel(image, at);
    std::size_t best = 0;
    for (std::size_t c = 1; c < palette.size(); ++c)
      if (distance2(rgb, palette[c].rgb) < distance2(rgb, palette[best].rgb)) best = c;
    const int close = distance2(rgb, palette[best].rgb);
    if (close <= color_distance_max * color_distance_max && close < distance2(rgb, ground))
      colors[at] = static_cast<int>(best);
  }
  return colors;
}

/// The pixels that touch `start` in its colour; they are taken out of `colors`.
std::vector<std::size_t> take_component(std::vector<int>& colors, std::size_t start) {
  const int color = colors[start];
  std::vector<std::size_t> pixels;
  std::vector<std::size_t> stack{start};
  colors[start] = -1;
  const auto visit = [&](std::size_t at) {
    if (colors[at] != color) return;
    colors[at] = -1;
    stack.push_back(at);
  };
  while (!stack.empty()) {
    const std::size_t at = stack.back();
    stack.pop_back();
    pixels.push_back(at);
    if (at % side > 0) visit(at - 1);
    if (at % side < side - 1) visit(at + 1);
    if (at >= side) visit(at - side);
    if (at + side < side * side) visit(at + side);
  }
  return pixels;
}

Thing name_shape(const std::vector<std::size_t>& pixels, int color) {
  double cx = 0.5;
  double cy = 0.5;
  std::vector<bool> mask(side * side);
  const auto count = static_cast<double>(pixels.size());
  for (const std::size_t at : pixels) {
    mask[at] = true;
    cx += static_cast<double>(at % side) / count;
    cy += static_cast<double>(at / side) / count;
  }
  Thing best{palette[static_cast<std::size_t>(color)].name, "", cx, cy, -1};
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const double radius = std::sqrt(count / facts()[s].area);
    const double centre = cy - facts()[s].offset * radius;
    double both = 0;
    double either = 0;
    for (std::size_t at = 0; at < mask.size(); ++at) {
      const bool ideal = signed_distance(s, static_cast<double>(at % side) + 0.5 - cx,
                                         static_cast<double>(at / side) + 0.5 - centre, radius) > 0;
      both += ideal && mask[at] ? 1 : 0;
      either += ideal || mask[at] ? 1 : 0;
    }
    const double overlap = both / std::max(1.0, either);
    if (overlap <= best.overlap) continue;
    best.overlap = overlap;
    best.shape = shapes[s];
    best.y = centre;
  }
  return best;
}

}  // namespace

double signed_distance(std::size_t shape, double dx, double dy, double radius) {
  if (shape == 0) return radius - std::hypot(dx, dy);
  if (shape == 1) return 0.86 * radius - std::max(std::abs(dx), std::abs(dy));
  if (shape == 2) {
    constexpr double s3 = 0.8660254;
    return std::min({0.6 * radius - dy, 0.55 * radius + 0.5 * dy - s3 * dx,
                     0.55 * radius + 0.5 * dy + s3 * dx});
  }
  // The straight edge between a tip and a notch, in polar form: 0 at a tip, 1 in a notch.
  constexpr double half = std::numbers::pi / 5;
  const double turn = std::atan2(dx, -dy) / (2 * half) + 0.5;
  const double theta = std::abs(turn - std::floor(turn) - 0.5) * 2 * half;
  const double tip = 1.12 * radius;
  const double notch = 0.50 * radius;
  const double edge =
      std::sin(half) / (std::sin(half - theta) / tip + std::sin(theta) / notch);
  return (edge - std::hypot(dx, dy)) * 0.7;
}

std::string region_of(double x, double y) {
  constexpr std::array<const char*, 3> rows{"top", "middle", "bottom"};
  constexpr std::array<const char*, 3> columns{"left", "center", "right"};
  const auto third = [](double v) {
    return static_cast<std::size_t>(std::clamp(static_cast<int>(v * 3 / side), 0, 2));
  };
  const std::string name = std::string(rows[third(y)]) + " " + columns[third(x)];
  return name == "middle center" ? "center" : name;
}

std::vector<Thing> find_things(const Tensor& image) {
  SLUICE_CHECK(image.dtype() == Dtype::u8 && image.count() == side * side * 3);
  std::vector<int> colors = colors_of(image);
  std::vector<Thing> found;
  for (std::size_t at = 0; at < colors.size(); ++at) {
    const int color = colors[at];
    if (color < 0) continue;
    const std::vector<std::size_t> pixels = take_component(colors, at);
    if (pixels.size() >= component_min) found.push_back(name_shape(pixels, color));
  }
  return found;
}

bool satisfied(const std::vector<Thing>& found, const Wanted& wanted) {
  constexpr double overlap_min = 0.6;
  std::vector<std::pair<std::string, std::string>> names;
  for (const Thing& thing : found) {
    if (thing.overlap < overlap_min) return false;
    names.emplace_back(thing.color, thing.shape);
  }
  if (!std::ranges::is_permutation(names, wanted.objects)) return false;
  if (!wanted.region.empty() && region_of(found[0].x, found[0].y) != wanted.region) return false;
  if (wanted.relation.empty()) return true;
  const auto thing = [&](std::size_t i) {
    return found[static_cast<std::size_t>(std::ranges::find(names, wanted.objects[i]) -
                                          names.begin())];
  };
  const Thing a = thing(0);
  const Thing b = thing(1);
  if (wanted.relation == "left of") return a.x < b.x;
  if (wanted.relation == "right of") return a.x > b.x;
  if (wanted.relation == "above") return a.y < b.y;
  return wanted.relation == "below" && a.y > b.y;
}

}  // namespace sluice::scenes
