// What a picture that a model looks at may be: a type, three sizes, each with its limits.
#include <catch2/catch.hpp>

#include "engine/family/architecture.h"
#include "engine/picture/picture_input.h"
#include "tests/directories.h"

using namespace sluice;

TEST_CASE("a picture has three colours and sides from 1 to 16384") {
  const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/models/scenes";
  const Architecture architecture = Architecture::load(directory).value();
  const PictureSteps steps = PictureSteps::load(directory, architecture).value();
  const auto refused = [&](Dtype dtype, std::vector<std::int64_t> shape) {
    const Result<PictureInput> made =
        prepare_picture(steps, architecture, Tensor::zeros(dtype, std::move(shape)).value());
    return !made.ok() && made.error().message.find(
                             "u8 [height, width, 3] of at most 16384 a side") != std::string::npos;
  };
  for (const auto& [height, width] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {16384, 1}, {1, 16384}})
    CHECK_FALSE(refused(Dtype::u8, {height, width, 3}));
  for (const auto& [height, width] :
       {std::pair<std::int64_t, std::int64_t>{0, 4}, {4, 0}, {16385, 1}, {1, 16385}})
    CHECK(refused(Dtype::u8, {height, width, 3}));
  for (const std::int64_t colours : {0, 1, 2, 4}) CHECK(refused(Dtype::u8, {4, 4, colours}));
  CHECK(refused(Dtype::u8, {4, 4}));
  CHECK(refused(Dtype::u8, {4, 4, 3, 1}));
  CHECK(refused(Dtype::f32, {4, 4, 3}));
  CHECK(refused(Dtype::i32, {4, 4, 3}));
}
