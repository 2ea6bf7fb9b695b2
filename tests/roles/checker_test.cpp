#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "bench/scenes_checker.h"

namespace sluice::scenes {
namespace {

struct Paint {
  std::size_t shape;
  std::array<std::uint8_t, 3> rgb;
  double x, y, radius;
};

constexpr std::array<std::uint8_t, 3> red{214, 48, 49}, blue{41, 98, 214}, green{38, 166, 91};

Tensor paint(const std::vector<Paint>& things) {
  Tensor image = std::move(Tensor::zeros(Dtype::u8, {64, 64, 3})).value();
  for (std::uint8_t& byte : image.u8()) byte = 220;
  for (const Paint& thing : things)
    for (std::size_t at = 0; at < 64 * 64; ++at)
      if (signed_distance(thing.shape, static_cast<double>(at % 64) + 0.5 - thing.x,
                          static_cast<double>(at / 64) + 0.5 - thing.y, thing.radius) > 0)
        std::copy(thing.rgb.begin(), thing.rgb.end(), image.u8().begin() + at * 3);
  return image;
}

TEST_CASE("every shape is found by name, at its own centre, at every size and offset") {
  const std::vector<std::string> names{"circle", "square", "triangle", "star"};
  for (std::size_t shape = 0; shape < names.size(); ++shape)
    for (double radius = 6.5; radius <= 9.5; radius += 0.75)
      for (double shift = 0; shift < 1; shift += 0.3) {
        const std::vector<Thing> found =
            find_things(paint({{shape, red, 20 + shift, 40 - shift, radius}}));
        REQUIRE(found.size() == 1);
        CHECK(found[0].shape == names[shape]);
        CHECK(found[0].color == "red");
        CHECK(std::abs(found[0].x - 20 - shift) < 0.5);
        CHECK(std::abs(found[0].y - 40 + shift) < 0.8);
        CHECK(found[0].overlap > 0.8);
      }
}

TEST_CASE("a drawing is right only with every object, nothing else, and the named place") {
  const Wanted wanted{{{"red", "circle"}, {"blue", "square"}}, "left of", ""};
  const Paint circle{0, red, 15, 30, 8};
  const Paint square{1, blue, 45, 30, 8};
  CHECK(satisfied(find_things(paint({circle, square})), wanted));
  // Each planted mistake is refused.
  CHECK_FALSE(satisfied(find_things(paint({})), wanted));
  CHECK_FALSE(satisfied(find_things(paint({circle})), wanted));
  CHECK_FALSE(satisfied(find_things(paint({circle, square, {3, green, 30, 50, 8}})), wanted));
  CHECK_FALSE(satisfied(find_things(paint({{0, blue, 15, 30, 8}, square})), wanted));
  CHECK_FALSE(satisfied(find_things(paint({{1, red, 15, 30, 8}, square})), wanted));
  CHECK_FALSE(satisfied(find_things(paint({{0, red, 45, 30, 8}, {1, blue, 15, 30, 8}})), wanted));
  Wanted placed{{{"red", "circle"}}, "", "middle left"};
  CHECK(satisfied(find_things(paint({circle})), placed));
  placed.region = "top left";
  CHECK_FALSE(satisfied(find_things(paint({circle})), placed));
  const Wanted twice{{{"red", "circle"}, {"red", "circle"}}, "", ""};
  CHECK_FALSE(satisfied(find_things(paint({circle, circle})), twice));
}

TEST_CASE("specks are noise and a grey picture holds nothing") {
  Tensor image = paint({{0, red, 20, 20, 2}});
  CHECK(find_things(image).empty());
  CHECK(region_of(32, 32) == "center");
  CHECK(region_of(1, 63) == "bottom left");
  CHECK(region_of(63, 32) == "middle right");
}

}  // namespace
}  // namespace sluice::scenes
