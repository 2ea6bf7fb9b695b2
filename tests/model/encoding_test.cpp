// A picture's encoding as a task: in pieces, it gives what the model gives at once, and an answer
// goes on between them.
#include "engine/tasks/encoding.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"
#include "engine/tasks/generation.h"
#include "engine/tasks/model_engine.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string root = std::string(SLUICE_SOURCE_DIR) + "/";

struct Pictures {
  std::vector<float> pixels;
  std::vector<Grid> grids;
};

/// Of random values: `count` pictures of the tower's size, or one of any size.
Pictures pictures_for(const Architecture& a, std::size_t count) {
  Pictures made;
  std::size_t values = 0;
  if (a.qwen_vision.has_value()) {
    const std::size_t merge = a.qwen_vision->merge;
    for (std::size_t i = 0; i < count; ++i) {
      made.grids.push_back(
          {1, static_cast<std::uint32_t>(merge * (2 + i)), static_cast<std::uint32_t>(merge * 3)});
      values += merge * (2 + i) * merge * 3 * a.qwen_vision->patch_values();
    }
  } else {
    values = count * (a.second_vision.has_value() ? 6 : 3) * a.vision->side * a.vision->side;
  }
  SplitMix64 random(11);
  for (std::size_t i = 0; i < values; ++i)
    made.pixels.push_back(static_cast<float>(random.normal()));
  return made;
}

Model open(const std::string& path) { return std::move(Model::open(root + path)).value(); }

}  // namespace

TEST_CASE("a picture in pieces gives the rows that it gives at once, bit for bit") {
  for (const char* path : {"models/scenes", "tests/golden/siglip", "tests/golden/dinov2",
                           "tests/golden/paligemma", "tests/golden/qwen2_5_vl",
                           "tests/golden/smolvlm", "tests/golden/pi0", "tests/golden/openvla"}) {
    CAPTURE(path);
    const Model model = open(path);
    for (const std::size_t count : {1U, 3U}) {
      const Pictures pictures = pictures_for(model.architecture(), count);
      const std::vector<float> want = model.features(pictures.pixels, pictures.grids).value();
      for (const std::size_t at_once : {1U, 3U, 1000U}) {
        PictureForward picture =
            PictureForward::begin(model, pictures.pixels, pictures.grids).value();
        std::size_t last = picture.cost() + 1;
        while (!picture.done()) {
          CHECK(picture.cost() > 0);
          CHECK(picture.cost() <= last);
          last = picture.cost();
          picture.run(std::min<std::size_t>(at_once, picture.pieces()));
        }
        CHECK(picture.cost() == 0);
        CHECK(picture.take_features() == want);
      }
    }
  }
}

TEST_CASE("large pictures go one by one, and have the rows that they have together") {
  const Model model = open("models/scenes");
  // 64 patches each: sixteen go through a layer together.
  const Pictures pictures = pictures_for(model.architecture(), 35);
  PictureForward picture = PictureForward::begin(model, pictures.pixels, {}).value();
  CHECK(picture.pieces() == 3 * model.architecture().vision->layers);
  while (!picture.done()) picture.run(1);
  // How many rows are multiplied together decides in which order a product sums, on some
  // processors.
  const std::vector<float> got = picture.take_features();
  const std::vector<float> want = model.features(pictures.pixels, {}).value();
  REQUIRE(got.size() == want.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(double{got[i]} - double{want[i]}, 2);
    size += std::pow(double{want[i]}, 2);
  }
  CHECK(std::sqrt(difference / size) < 1e-6);
}

TEST_CASE("pixels that are not what the tower takes are refused, and so is no picture") {
  const Model model = open("models/scenes");
  const auto refused = Encoding::make(model, std::vector<float>(100), {}, {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message == "pictures must be 3 x 64 x 64");
  CHECK_FALSE(Encoding::make(model, {}, {}, {}).ok());
  CHECK_FALSE(
      PictureForward::begin(open("tests/golden/qwen2_5_vl"), std::vector<float>(7), {}).ok());
}

TEST_CASE("a piece that the budget has no room for waits until it goes alone") {
  const Model model = open("models/scenes");
  const Pictures pictures = pictures_for(model.architecture(), 3);
  KvPool pool(model.text().kv_shape(16), 32);
  CpuText text(model.text(), pool);
  std::unique_ptr<Encoding> encoding =
      std::move(Encoding::make(model, pictures.pixels, {}, {})).value();
  PlannerOptions options;
  options.budget = encoding->need(text).least;  // and a token beside it is too much
  options.wait_most = 3;
  Generation asked;
  asked.history = {1, 3, 20, 21, 4};
  asked.options.tokens_max = 200;
  model.text().embed(asked.history, asked.rows);
  GenerationTask answer(std::move(asked), nullptr);
  ModelEngine engine(text, options);
  engine.add(1, answer);
  std::vector<TaskId> advanced;
  engine.step(advanced);
  engine.add(2, *encoding);
  std::size_t alone = 0, forwards = 0;
  engine.watch = [&](const ForwardRecord& forward) {
    CHECK(forward.items.size() == 1);
    alone += forward.items[0].task == 2 ? 1 : 0;
    ++forwards;
  };
  while (!encoding->done()) REQUIRE(engine.step(advanced));
  CHECK(alone == model.architecture().vision->layers);
  CHECK(forwards <= alone * (options.wait_most + 2));
  CHECK(encoding->take_features() == model.features(pictures.pixels, {}).value());
}

TEST_CASE("an encoding takes what the budget leaves, and an answer has a token in each forward") {
  const Model model = open("models/scenes");
  const Pictures pictures = pictures_for(model.architecture(), 3);
  KvPool pool(model.text().kv_shape(16), 32);
  CpuText text(model.text(), pool);
  std::unique_ptr<Encoding> encoding =
      std::move(Encoding::make(model, pictures.pixels, {}, {})).value();
  const std::uint32_t cost = encoding->need(text).rows, piece = encoding->need(text).least;
  CHECK(piece > 1);
  PlannerOptions options;
  options.budget = piece + 1;  // a piece beside a token
  CHECK(cost > 3 * options.budget);
  ModelEngine engine(text, options);

  Generation asked;
  asked.history = {1, 3, 20, 21, 4};
  asked.options.tokens_max = 200;
  model.text().embed(asked.history, asked.rows);
  GenerationTask answer(std::move(asked), nullptr);

  engine.add(1, answer);
  std::vector<TaskId> advanced;
  engine.step(advanced);
  engine.add(2, *encoding);
  std::size_t together = 0;
  std::uint32_t left = cost;
  engine.watch = [&](const ForwardRecord& forward) {
    std::uint32_t granted = 0;
    for (const BatchItem& item : forward.items) granted += item.task == 2 ? item.rows : 0;
    // What it cost, by what is left; a piece's cost is rounded once.
    const std::uint32_t now = encoding->done() ? 0 : encoding->need(text).rows;
    CHECK(granted < options.budget);
    CHECK(left - now <= granted);
    CHECK(granted <= left - now + piece);
    left = now;
    CHECK(forward.items.size() == 2);
    ++together;
  };
  const std::size_t before = answer.generation().tokens.size();
  while (!encoding->done()) {
    advanced.clear();
    REQUIRE(engine.step(advanced));
  }
  CHECK(together >= 3);
  CHECK(answer.generation().tokens.size() == before + together);
  CHECK(encoding->take_features() == model.features(pictures.pixels, {}).value());
  engine.watch = {};
  engine.remove(1);
  engine.remove(2);
  CHECK(engine.empty());
}
