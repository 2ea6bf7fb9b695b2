// Preprocessing against the families' own processors (tests/golden/make_conversations.py,
// `pictures`).
#include "engine/picture/picture_input.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/named_tensors.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

using Json = nlohmann::json;

const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/pictures";

struct Golden {
  SafetensorsFile file =
      std::move(SafetensorsFile::open(directory + "/expected.safetensors")).value();
  Json cases = Json::parse(std::ifstream(directory + "/cases.json"));

  Tensor picture(int i) const {
    const TensorView* view = file.find("picture" + std::to_string(i));
    REQUIRE(view != nullptr);
    Tensor made = std::move(Tensor::zeros(Dtype::u8, view->shape)).value();
    std::memcpy(made.bytes().data(), view->bytes.data(), view->bytes.size());
    return made;
  }
};

double worst(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return HUGE_VAL;
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    most = std::max(most, std::abs(double{got[i]} - double{want[i]}));
  return most;
}

}  // namespace

TEST_CASE("pictures are prepared as each family's processor prepares them") {
  const Golden golden;
  const NamedInputs expected(golden.file);
  REQUIRE(golden.cases.size() >= 9);
  for (const Json& one : golden.cases) {
    const std::string name = one.at("name");
    const auto architecture = Architecture::parse(one.at("config").dump(), name);
    INFO(name << " " << (architecture.ok() ? "" : architecture.error().message));
    REQUIRE(architecture.ok());
    const auto steps = PictureSteps::parse(one.at("preprocessor").dump(), name, *architecture);
    REQUIRE(steps.ok());
    for (int i = 0; i < 3; ++i) {
      INFO("picture " << i);
      const auto made = prepare_picture(*steps, *architecture, golden.picture(i));
      REQUIRE(made.ok());
      const std::string key = name + "." + std::to_string(i);
      // One grey level is 0.0078 of these values: nothing is rounded otherwise.
      CHECK(worst(made->pixels, std::move(expected.floats(key)).value()) < 5e-6);
      if (expected.has(key + ".grid")) {
        const auto grid = std::move(expected.integers(key + ".grid")).value();
        REQUIRE(made->grids.size() == 1);
        for (std::size_t j = 0; j < 3; ++j)
          CHECK(made->grids[0][j] == static_cast<std::uint32_t>(grid[j]));
      }
      if (name == "smolvlm") CHECK(made->tile_rows * made->tile_columns > 0);
      CHECK(made->feature_rows > 0);
    }
  }
}

TEST_CASE("another filter, normalisation or fit is seen") {
  const Golden golden;
  const NamedInputs expected(golden.file);
  const auto architecture = Architecture::parse(golden.cases[0].at("config").dump(), "");
  const std::vector<float> want = std::move(expected.floats("siglip.0")).value();
  for (const char* wrong :
       {R"({"size": 28, "resample": 2})", R"({"size": 28, "image_mean": [0.5, 0.5, 0.485]})",
        R"({"size": 28, "image_std": [0.5, 0.5, 0.51]})"}) {
    const auto steps = PictureSteps::parse(wrong, "", *architecture);
    REQUIRE(steps.ok());
    CHECK(worst(prepare_picture(*steps, *architecture, golden.picture(0))->pixels, want) > 1e-3);
  }
}

TEST_CASE("a size that is not the tower's is refused, and both are named") {
  const std::string scenes = std::string(SLUICE_SOURCE_DIR) + "/models/scenes";
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sluice_sides_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto refused = [&](const Architecture& architecture, const char* json) {
    std::ofstream(folder / "preprocessor_config.json") << json;
    const auto steps = PictureSteps::load(folder.string(), architecture);
    return steps.ok() ? "" : steps.error().message;
  };
  const Architecture square = Architecture::load(scenes).value();
  CHECK(refused(square, R"({"size": 64})").empty());
  CHECK(refused(square, R"({"size": 32})") ==
        (folder / "preprocessor_config.json").string() +
            ": 'size' makes pictures of 32 x 32, and the tower reads 64 x 64");
  CHECK(refused(square, R"({"size": 128})").find("128 x 128") != std::string::npos);
  const Golden golden;
  for (const Json& one : golden.cases) {
    const Architecture architecture = Architecture::parse(one.at("config").dump(), "").value();
    CAPTURE(one.at("name"));
    // A policy's client does what the tower wants, whatever the file says.
    const bool any = architecture.qwen_vision.has_value() || architecture.action.has_value();
    const std::string said = refused(architecture, R"({"size": 21, "crop_size": 21,
                                  "max_image_size": {"longest_edge": 21}})");
    CHECK(said.empty() == any);
    CHECK((any || said.find("21 x 21") != std::string::npos));
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("what a processor's file may not say is refused by its key") {
  const Golden golden;
  const auto architecture = Architecture::parse(golden.cases[0].at("config").dump(), "");
  const std::pair<const char*, const char*> wrongs[] = {
      {R"([])", "not a JSON object"},
      {R"({"resample": 7})", "'resample'"},
      {R"({"image_mean": [1, 2]})", "'image_mean'"},
      {R"({"image_std": [0, 1, 1]})", "'image_std'"},
      {R"({"size": {"height": 0, "width": 4}})", "'size'"},
      {R"({"size": {"height": 99999999, "width": 4}})", "'size.height'"}};
  for (const auto& [json, key] : wrongs) {
    const auto steps = PictureSteps::parse(json, "p.json", *architecture);
    INFO(json);
    REQUIRE(!steps.ok());
    CHECK(steps.error().message.find(key) != std::string::npos);
  }
}
