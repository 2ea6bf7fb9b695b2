// What becomes of pictures of many sizes: grids, tiles, rows and values, for each family's steps.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "engine/picture/picture_cache.h"
#include "engine/picture/picture_input.h"
#include "tests/directories.h"
#include "tests/outcomes.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

Tensor picture(std::int64_t height, std::int64_t width, std::int64_t channels = 3) {
  return Tensor::zeros(Dtype::u8, {height, width, channels}).value();
}

std::string text_of(const Result<PictureInput>& made) {
  if (!made.ok()) return made.error().message;
  std::string text = std::to_string(made->pixels.size()) + " values, " +
                     std::to_string(made->feature_rows) + " rows, tiles " +
                     std::to_string(made->tile_rows) + " x " + std::to_string(made->tile_columns);
  for (const Grid& grid : made->grids)
    text += ", grid " + std::to_string(grid[0]) + " x " + std::to_string(grid[1]) + " x " +
            std::to_string(grid[2]);
  return text;
}

}  // namespace

TEST_CASE("pictures of many sizes come to the sizes that each family's steps make of them") {
  const Json cases = Json::parse(
      std::ifstream(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/pictures/cases.json"));
  test::Outcomes outcomes("picture_sizes");
  for (const Json& one : cases) {
    const std::string name = one.at("name");
    const auto architecture = Architecture::parse(one.at("config").dump(), name);
    REQUIRE(architecture.ok());
    const auto steps = PictureSteps::parse(one.at("preprocessor").dump(), name, *architecture);
    REQUIRE(steps.ok());
    for (const auto& [height, width] :
         {std::pair{1, 1}, {1, 2},     {2, 1},   {14, 14}, {27, 29},  {28, 28},  {29, 27},
          {42, 14},        {56, 56},   {57, 55}, {64, 48}, {100, 37}, {37, 100}, {200, 300},
          {300, 200},      {301, 299}, {7, 70},  {70, 7},  {1, 20},   {20, 1}}) {
      const std::string size = std::to_string(height) + " x " + std::to_string(width) + ": ";
      outcomes.add(name,
                   size + text_of(prepare_picture(*steps, *architecture, picture(height, width))));
    }
    for (const Tensor& wrong :
         {picture(0, 4), picture(4, 0), picture(4, 4, 4), picture(16385, 1), picture(1, 16385),
          Tensor::zeros(Dtype::u8, {4, 3}).value(), Tensor::zeros(Dtype::f32, {4, 4, 3}).value()})
      outcomes.add(name, text_of(prepare_picture(*steps, *architecture, wrong)));
    if (!architecture->qwen_vision.has_value()) continue;
    for (const auto& [height, width] : {std::pair{200, 1}, {201, 1}, {1, 200}, {1, 201}})
      outcomes.add(name,
                   std::to_string(height) + " x " + std::to_string(width) + ": " +
                       text_of(prepare_picture(*steps, *architecture, picture(height, width))));
  }
  outcomes.require_as_kept();
}

TEST_CASE("a tall or wide picture of whole patches keeps its area between the limits") {
  const Json cases = Json::parse(
      std::ifstream(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/pictures/cases.json"));
  for (const Json& one : cases) {
    const auto architecture = Architecture::parse(one.at("config").dump(), "");
    REQUIRE(architecture.ok());
    if (!architecture->qwen_vision.has_value()) continue;
    const std::uint64_t factor =
        architecture->qwen_vision->patch * architecture->qwen_vision->merge;
    auto steps = PictureSteps::parse("{}", "", *architecture);
    REQUIRE(steps.ok());
    steps->pixels_min = 6 * factor * factor;
    steps->pixels_max = 12 * factor * factor;
    for (const auto& [height, width] :
         {std::pair{2, 3}, {3, 4}, {2, 2}, {4, 4}, {1, 6}, {1, 12}, {1, 13}, {3, 2}, {5, 3}}) {
      CAPTURE(height, width);
      const auto made = prepare_picture(*steps, *architecture,
                                        picture(height * static_cast<std::int64_t>(factor),
                                                width * static_cast<std::int64_t>(factor)));
      REQUIRE(made.ok());
      const std::size_t merged = architecture->qwen_vision->merge;
      const std::size_t rows = made->grids[0][1] / merged, columns = made->grids[0][2] / merged;
      const auto area = static_cast<std::size_t>(height * width);
      if (area >= 6 && area <= 12) {  // as it is
        CHECK(rows == static_cast<std::size_t>(height));
        CHECK(columns == static_cast<std::size_t>(width));
      } else {
        CHECK(rows * columns >= 6);
        CHECK(rows * columns <= 12);
      }
      CHECK(made->feature_rows == rows * columns);
    }
  }
}

TEST_CASE("the pictures kept are those last asked for, up to so many bytes exactly") {
  const auto made = [](const char* content, std::size_t pixels, std::size_t features) {
    PictureInput input;
    input.content = content;
    input.pixels.resize(pixels);
    input.features.resize(features);
    return input;
  };
  PictureCache cache(40 * sizeof(float));
  cache.keep(made("a", 10, 6));
  CHECK(cache.bytes() == 64);
  cache.keep(made("a", 1, 1));  // it is there
  CHECK(cache.bytes() == 64);
  CHECK(cache.size() == 1);
  cache.keep(made("b", 14, 10));
  CHECK(cache.bytes() == 160);
  CHECK(cache.size() == 2);
  REQUIRE(cache.find("a") != nullptr);
  CHECK(cache.find("a")->pixels.size() == 10);
  CHECK(cache.find("c") == nullptr);
  cache.keep(made("c", 1, 0));  // one value too many: the one that was not asked for goes
  CHECK(cache.find("b") == nullptr);
  CHECK(cache.find("a") != nullptr);
  CHECK(cache.bytes() == 68);
  cache.keep(made("large", 41, 0));
  CHECK(cache.find("large") == nullptr);
  CHECK(cache.size() == 2);
  cache.keep(made("whole", 40, 0));
  CHECK(cache.size() == 1);
  CHECK(cache.bytes() == 160);
  CHECK(cache.find("whole") != nullptr);
}

TEST_CASE("a picture's content is its shape and its bytes") {
  const std::string one = picture_content(picture(2, 3));
  CHECK(one.size() == 32);
  CHECK(picture_content(picture(2, 3)) == one);
  CHECK(picture_content(picture(3, 2)) != one);
  Tensor other = picture(2, 3);
  other.u8()[17] = 1;
  CHECK(picture_content(other) != one);
}

}  // namespace sluice
