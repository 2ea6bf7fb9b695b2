// Finds coloured shapes in a 64 x 64 picture: what says whether a drawing holds what was asked for.
//
// 1. A pixel belongs to the nearest palette colour within 60 in RGB, when that is nearer than the
//    background: the median colour of the picture's border.
// 2. Pixels of one colour that touch (4 neighbours) are a component; fewer than 24 are noise.
// 3. The shape is the one whose ideal mask of the same area and centroid overlaps best (IoU).
// 4. The place is the centroid, moved by the shape's own offset.
// The same algorithm as tools/train/scenes/checker.py, so that both count the same drawings.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace sluice::scenes {

struct Thing {
  std::string color;
  std::string shape;
  double x = 0;
  double y = 0;
  double overlap = 0;
};

/// What a sentence asked for. `relation` and `region` are empty when it named none.
struct Wanted {
  std::vector<std::pair<std::string, std::string>> objects;   // colour, shape
  std::string relation;
  std::string region;
};

/// Requires: u8 [64, 64, 3].
std::vector<Thing> find_things(const Tensor& image);
/// Everything that was asked for, and nothing else.
bool satisfied(const std::vector<Thing>& found, const Wanted& wanted);

/// "top left", ..., "center".
std::string region_of(double x, double y);
/// Positive inside the shape of index 0 to 3 (circle, square, triangle, star), in pixels.
double signed_distance(std::size_t shape, double dx, double dy, double radius);

}  // namespace sluice::scenes
