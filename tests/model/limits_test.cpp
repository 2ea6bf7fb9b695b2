// What a file may say at most, and what happens one further: an error that names the key.
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "engine/check/model_check.h"
#include "engine/plan/planner.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

/// A family's configuration with one number in place of another.
Result<Architecture> qwen_with(const std::string& key, const std::string& number) {
  return Architecture::parse(R"({"model_type": "qwen2_5_vl", "vocab_size": 152, "hidden_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
    "intermediate_size": 64, "vision_config": {"depth": 1, "hidden_size": 32, "num_heads": 2,
    "intermediate_size": 48, "out_hidden_size": 32, "fullatt_block_indexes": [0], ")" +
                                 key + "\": " + number + "}}",
                             "c");
}

/// A checkpoint run on inputs that a test makes.
Result<NamedTensors> run(const std::string& family, const NamedTensors& inputs) {
  Result<Model> model = Model::open(golden + family);
  INFO((model.ok() ? "" : model.error().message));
  REQUIRE(model.ok());
  const std::string path = std::tmpnam(nullptr);
  REQUIRE(save_safetensors(path, inputs).ok());
  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  std::remove(path.c_str());
  REQUIRE(file.ok());
  return run_model(*model, NamedInputs(*file));
}

}  // namespace

TEST_CASE("sizes of a vision tower have an upper limit, which is still taken") {
  const std::pair<const char*, std::size_t> limits[] = {{"depth", 1024},
                                                        {"patch_size", 256},
                                                        {"temporal_patch_size", 16},
                                                        {"spatial_merge_size", 16}};
  for (const auto& [key, most] : limits) {
    const std::string named = std::string("c: 'vision_config.") + key + "'";
    INFO(named);
    const Result<Architecture> taken = qwen_with(key, std::to_string(most));
    INFO((taken.ok() ? "" : taken.error().message));
    CHECK((taken.ok() || !taken.error().message.starts_with(named)));
    const Result<Architecture> refused = qwen_with(key, std::to_string(most + 1));
    REQUIRE_FALSE(refused.ok());
    CHECK_THAT(refused.error().message,
               Catch::StartsWith(named) && Catch::Contains(std::to_string(most)));
  }
}

TEST_CASE("sizes of pictures in a check's inputs are from 1 to 16384") {
  for (const std::int32_t wrong : {0, -2, 16385}) {
    NamedTensors inputs;
    put_integers(inputs, "input_ids", {1, 2}, {1, 2});
    put_integers(inputs, "image_grid_thw", {1, 3}, {1, wrong, 2});
    const Result<NamedTensors> made = run("qwen2_5_vl", inputs);
    REQUIRE_FALSE(made.ok());
    CHECK_THAT(made.error().message,
               Catch::Contains("image_grid_thw holds a size that is not from 1 to 16384"));
  }
}

TEST_CASE("latents of one row or one column are decoded, of none are refused") {
  const std::size_t channels =
      std::move(Architecture::load(golden + "vae")).value().vae->latent_channels;
  const auto latents = [&](std::int64_t height, std::int64_t width) {
    NamedTensors inputs;
    put_floats(inputs, "latents", {1, static_cast<std::int64_t>(channels), height, width},
               std::vector<float>(channels * static_cast<std::size_t>(height * width), 0.5F));
    return run("vae", inputs);
  };
  CHECK(latents(1, 2).ok());
  CHECK(latents(2, 1).ok());
  const Result<NamedTensors> none = latents(0, 2);
  REQUIRE_FALSE(none.ok());
  CHECK_THAT(none.error().message, Catch::Contains("latents must be [pictures, "));
}

TEST_CASE("a task that the planner does not know, or no longer, ends without a word") {
  Planner planner({.budget = 10, .tasks_most = 8});
  planner.end(7);
  planner.begin(1, {});
  planner.end(1);
  planner.end(1);
  CHECK(planner.empty());
}
