// How large a configuration may be: each size is taken up to its limit, and refused above it.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "engine/family/architecture.h"
#include "tests/directories.h"
#include "tests/outcomes.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// What is said of a configuration; empty: nothing.
std::string problem_of(const std::string& config) {
  const fs::path folder =
      fs::temp_directory_path() / ("sluice_limits_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << config;
  const Result<Architecture> made = Architecture::load(folder.string());
  fs::remove_all(folder);
  return made.ok() ? "" : made.error().message;
}

struct Family {
  std::string head;  // of its smallest configuration, up to the sizes
  std::string key;
  std::size_t most;
};

TEST_CASE("a size in a configuration is taken up to its limit") {
  const std::string llama =
      R"({"model_type": "llama", "vocab_size": 1000, "hidden_size": 64, "num_attention_heads": 4,
          "num_hidden_layers": 2, "intermediate_size": 96, )";  // of two keys the last holds
  const std::string siglip = R"({"model_type": "siglip_vision_model", )";
  const std::string vae = R"({"_class_name": "AutoencoderKL", )";
  const std::string dit = R"({"_class_name": "DiTTransformer2DModel", )";
  const std::string pi0 = R"({"type": "pi0", )";
  for (const Family& row : {Family{vae, "latent_channels", 1024},
                            {vae, "out_channels", 1024},
                            {vae, "layers_per_block", 64},
                            {siglip, "num_hidden_layers", 1024},
                            {siglip, "intermediate_size", 1 << 20},
                            {llama, "num_hidden_layers", 1024},
                            {llama, "intermediate_size", 1 << 20},
                            {dit, "num_layers", 1024},
                            {dit, "in_channels", 1024},
                            {pi0, "chunk_size", 4096},
                            {pi0, "max_action_dim", 4096},
                            {pi0, "num_steps", 1000},
                            {pi0, "num_cameras", 16}}) {
    CAPTURE(row.head, row.key);
    const auto with = [&](std::size_t size) {
      return problem_of(row.head + "\"" + row.key + "\": " + std::to_string(size) + "}");
    };
    CHECK(with(row.most).find(row.key) == std::string::npos);
    CHECK(with(row.most + 1).find(row.key) != std::string::npos);
    CHECK(with(0).find(row.key) != std::string::npos);
  }
}

TEST_CASE(
    "each number of each family's configuration is refused where it is too large, as before") {
  test::Outcomes outcomes("config_limits");
  const std::string source = SLUICE_SOURCE_DIR;
  for (const char* family :
       {"models/scenes", "tests/golden/llama", "tests/golden/llama3", "tests/golden/gemma",
        "tests/golden/smollm3", "tests/golden/siglip", "tests/golden/dinov2",
        "tests/golden/paligemma", "tests/golden/qwen2_5_vl", "tests/golden/smolvlm",
        "tests/golden/pi05", "tests/golden/pi0", "tests/golden/openvla", "tests/golden/smolvla",
        "tests/golden/dit", "tests/golden/vae"}) {
    std::ifstream file(source + "/" + family + "/config.json");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    REQUIRE_FALSE(text.empty());
    for (std::size_t at = text.find_first_of("0123456789"); at != std::string::npos;) {
      const std::size_t end = text.find_first_not_of("0123456789", at);
      const char before = text[at - 1], behind = text[end];
      const bool is_whole = (before == ' ' || before == ':' || before == '[') &&
                            (behind == ',' || behind == '\n' || behind == '}' || behind == ']');
      for (const char* other : {"0", "1025", "65537", "1048577", "1099511627776"}) {
        if (!is_whole) break;
        const auto made = Architecture::parse(text.substr(0, at) + other + text.substr(end), "c");
        outcomes.add(family, made.ok() ? "taken" : made.error().message);
      }
      at = text.find_first_of("0123456789", end);
    }
  }
  outcomes.require_as_kept();
}

/// models/scenes' own, with one text in the place of another.
std::string scenes_with(const std::string& what, const std::string& other) {
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/models/scenes/config.json");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), other);
}

TEST_CASE("models/scenes is a family: its parts are read, and what does not fit is named") {
  const Result<Architecture> read =
      Architecture::load(std::string(SLUICE_SOURCE_DIR) + "/models/scenes");
  REQUIRE(read.ok());
  CHECK(to_string(read->family) == "scenes");
  CHECK(read->text->block.width == 256);
  CHECK(read->text->tied);
  CHECK(read->vision->patches() == 64);
  CHECK(read->pixel_shuffle == 2);
  CHECK(read->projector_hidden == 512);
  CHECK(read->image_token == 0);
  CHECK(read->turns->wordless_drawing() == std::vector<std::int32_t>{1, 3, 4, 7});
  CHECK(read->flow->guidance == 2.0);
  CHECK(read->codec->tokens() == 16);
  CHECK(read->codec->token_values() == 32);
  CHECK(read->codec->decoder.size() == 13);

  const std::pair<const char*, const char*> wrong[] = {
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"},
      {"\"head_dim\": 32", "\"head_dim\": 31"},
      {"\"merge\": 2", "\"merge\": 3"},
      {"\"merge\": 2", "\"melt\": 2"},
      {"\"tokens\": 16", "\"tokens\": 15"},
      {"\"time_dim\": 256", "\"time_dim\": 2"},
      {"\"prediction\": \"x0\"", "\"prediction\": \"x1\""},
      {"\"op\": \"upsample2x\"", "\"op\": \"upsample3x\""},
      {"\"op\": \"upsample2x\"", "\"op\": 3"},
      {"\"op\": \"upsample2x\"", "\"opus\": \"upsample2x\""},
      {"\"draw_token_id\": 7", "\"drawn_token_id\": 7"},
      {"\"patch\": 2", "\"patch\": 3"},
      {"\"bos_token_id\": 1", "\"bos_token_id\": 128"},
      {"\"draw_token_id\": 7", "\"draw_token_id\": 1000"},
      {"\"pad_token_id\": 0", "\"pad_token_id\": 128"},
  };
  const char* said[] = {"num_key_value_heads",
                        "head_dim",
                        "merge",
                        "'vision_config.merge' is missing",
                        "denoiser tokens",
                        "time_dim",
                        "x0 or velocity",
                        "'upsample3x'",
                        "'codec.decoder.op' must be a text",
                        "'codec.decoder.op' is missing",
                        "'draw_token_id' is missing",
                        "denoiser tokens",
                        "'bos_token_id' is 128, and vocab_size is 128",
                        "'draw_token_id' is 1000",
                        "'pad_token_id' is 128"};
  for (std::size_t i = 0; i < std::size(wrong); ++i) {
    CAPTURE(wrong[i].second);
    const std::string problem = problem_of(scenes_with(wrong[i].first, wrong[i].second));
    CAPTURE(problem);
    CHECK(problem.find(said[i]) != std::string::npos);
  }
}

TEST_CASE("layers of a codec of models/scenes stand in each other four deep, and no deeper") {
  const auto nested = [](int depth) {
    std::string text = "\"op\": \"silu\"";
    for (int i = 0; i < depth; ++i) text = "\"op\": \"residual\", \"body\": [{" + text + "}]";
    return problem_of(scenes_with("\"op\": \"silu\"", text));
  };
  CHECK(nested(4).find("must be a short list of layers") == std::string::npos);
  CHECK(nested(5).find(".body' must be a short list of layers") != std::string::npos);
}

TEST_CASE("a codec of models/scenes has up to 256 layers in a list, and no more") {
  const auto of_layers = [](int layers) {
    std::string text = "{\"op\": \"silu\"}";
    for (int i = 1; i < layers; ++i) text += ", {\"op\": \"silu\"}";
    return problem_of(
        scenes_with("\"op\": \"silu\"", "\"op\": \"residual\", \"body\": [" + text + "]"));
  };
  CHECK(of_layers(256).find("must be a short list of layers") == std::string::npos);
  CHECK(of_layers(257).find("must be a short list of layers") != std::string::npos);
}

}  // namespace
}  // namespace sluice
