// How large a configuration may be: each size is taken up to its limit, and refused above it.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/family/architecture.h"

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

}  // namespace
}  // namespace sluice
