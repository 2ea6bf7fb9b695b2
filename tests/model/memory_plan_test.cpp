// What a model takes of the memory, to the byte.
#include "engine/family/memory_plan.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/directories.h"

using namespace sluice;

namespace {

using kernels::WeightFormat;

const std::string llama = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/llama";

/// A bf16 matrix of 4 x 8, an f32 matrix of 2 x 3 and an f32 vector of 5.
SafetensorsFile three_tensors() {
  const std::string header = R"({"m":{"dtype":"BF16","shape":[4,8],"data_offsets":[0,64]},)"
                             R"("f":{"dtype":"F32","shape":[2,3],"data_offsets":[64,88]},)"
                             R"("v":{"dtype":"F32","shape":[5],"data_offsets":[88,108]}})";
  const std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file += header + std::string(108, '\0');
  return std::move(SafetensorsFile::parse(std::as_bytes(std::span(file)), "x")).value();
}

}  // namespace

TEST_CASE("weights take what each precision keeps of them") {
  const SafetensorsFile file = three_tensors();
  const auto weights = [&](WeightFormat format) {
    return plan_memory(file, Architecture(), 1, format).weights;
  };
  CHECK(weights(WeightFormat::exact) == 32 * 6 + 6 * 4 + 5 * 4);
  CHECK(weights(WeightFormat::bf16) == 38 * 2 + 5 * 4);
  CHECK(weights(WeightFormat::int8) == 38 + 5 * 4);
}

TEST_CASE("a token takes its keys and its values, of every layer and KV head, in f32") {
  const Architecture a = std::move(Architecture::load(llama)).value();
  const double token = 3.0 * (16 * 2 * 4 + 16 * 2 * 4);  // layers; keys and values of 2 heads x 16
  CHECK(kv_bytes(*a.text) == token);
  const MemoryPlan plan = plan_memory(three_tensors(), a, 100, WeightFormat::exact);
  CHECK(plan.kv == 100 * token);
  CHECK(plan.kv_tokens == 100);
  CHECK(kv_bytes(*a.text, Dtype::bf16) == token / 2);
  CHECK(plan_memory(three_tensors(), a, 100, WeightFormat::exact, Dtype::bf16).kv == 50 * token);
  CHECK(plan.machine == machine_bytes());
}

TEST_CASE("a patch of a DiT takes the same of its trunk") {
  const Architecture a =
      std::move(Architecture::load(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/dit")).value();
  const double token = 2.0 * 2 * 48 * 4;  // layers; keys and values of 3 heads x 16
  CHECK(plan_memory(three_tensors(), a, 100, WeightFormat::exact).kv == 100 * token);
}

TEST_CASE("random weights are counted by their shapes") {
  const Architecture a = std::move(Architecture::load(llama)).value();
  // Of a layer: q, k, v, the way back, then gate, up and down.
  const double layer = 64 * (64 + 32 + 32) + 64 * 64 + 3 * 64 * 112;
  const double all = 3 * layer + 2 * 128 * 64;  // embedding and head
  CHECK(parameter_count(*a.text) == all);
  const SafetensorsFile random = SafetensorsFile::random(1);
  CHECK(plan_memory(random, a, 0, WeightFormat::exact).weights == 4 * all);
  CHECK(plan_memory(random, a, 0, WeightFormat::bf16).weights == 2 * all);
  CHECK(plan_memory(random, a, 0, WeightFormat::int8).weights == all);
  DecoderShape tied = *a.text;
  tied.tied = true;
  CHECK(parameter_count(tied) == all - 128 * 64);
}

TEST_CASE("a model of several parts has the parameters of all") {
  const auto of = [](const std::string& golden) {
    return std::move(Architecture::load(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + golden))
        .value();
  };
  const auto tower = [](const TowerShape& shape) {
    return static_cast<double>(shape.layers) * parameter_count(shape.block);
  };
  const Architecture sees = of("conversation_smolvlm"), sees_twice = of("openvla"),
                     acts = of("pi0");
  REQUIRE((sees.vision && sees_twice.second_vision && acts.vision && acts.action));
  CHECK(parameter_count(sees) == parameter_count(*sees.text) + tower(*sees.vision));
  CHECK(parameter_count(sees_twice) == parameter_count(*sees_twice.text) +
                                           tower(*sees_twice.vision) +
                                           tower(*sees_twice.second_vision));
  CHECK(parameter_count(acts) ==
        parameter_count(*acts.text) + tower(*acts.vision) + parameter_count(acts.action->expert));
}

TEST_CASE("a plan fits up to 95 % of the machine, and says its numbers when it does not") {
  MemoryPlan plan;
  plan.machine = 1000e6;
  plan.weights = 900e6;
  plan.kv = 50e6;
  plan.kv_tokens = 12;
  CHECK(plan.check().ok());
  plan.kv = 51e6;
  REQUIRE_FALSE(plan.check().ok());
  CHECK(plan.check().error().code == ErrorCode::exhausted);
  CHECK_THAT(plan.check().error().message,
             Catch::Contains("weights 900 MB, KV 51 MB for 12 tokens; the machine has 1000 MB"));
  plan.weights = 951e6;
  plan.kv = 0;
  CHECK_FALSE(plan.fits());
  plan.weights = 0;
  plan.kv = 951e6;
  CHECK(plan.check().error().message ==
        "its keys and values do not fit: KV 951 MB for 12 tokens; the machine has 1000 MB; give it "
        "fewer `pages`, or `kv_dtype: bf16`");
}
