// A token alone takes its way through the layers as a relay of loops. A forward that is watched
// goes layer after layer, as several rows do: the two give the same bits.
#include "engine/layers/token_step.h"

#include <catch2/catch.hpp>
#include <latch>
#include <thread>

#include "base/check.h"
#include "base/worker_pool.h"
#include "engine/family/model.h"
#include "tests/directories.h"

using namespace sluice;
using kernels::WeightFormat;

namespace {

constexpr std::size_t step_tokens = 20;

/// Hidden rows and logits of tokens that come one by one behind a prompt.
std::vector<float> steps(const Decoder& text, Dtype kv, std::size_t prompt, bool watched) {
  KvPool pool(text.kv_shape(16, kv), (prompt + step_tokens) / 16 + 2);
  KvSequence sequence;
  std::vector<float> rows, hidden, logits, all;
  const auto forward = [&](std::size_t count, const Decoder::Watch& watch) {
    rows.clear();
    for (std::size_t i = 0; i < count; ++i)
      text.embed(std::vector{static_cast<std::int32_t>((sequence.tokens() + i) * 7 %
                                                       text.shape().vocabulary)},
                 rows);
    const Chunk chunk{&sequence, rows};
    SLUICE_CHECK(text.forward(pool, {&chunk, 1}, hidden, nullptr, watch).ok());
  };
  forward(prompt, {});
  for (std::size_t i = 0; i < step_tokens; ++i) {
    forward(1, watched ? [](std::size_t, std::span<const float>) {} : Decoder::Watch{});
    text.logits(hidden, logits);
    all.insert(all.end(), hidden.begin(), hidden.end());
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

Decoder random_decoder(WeightFormat format) {
  DecoderShape shape;
  shape.vocabulary = 128;
  shape.layers = 3;
  shape.block = {.width = 320, .heads = 10, .kv_heads = 5, .head_dim = 64, .mlp = 700};
  shape.block.qkv_bias = true;
  shape.positions_max = 512;
  shape.rope.theta = 1e4;
  shape.layers_without_rope = {false, true, false};
  const SafetensorsFile file = SafetensorsFile::random(3);
  return std::move(Decoder::load(shape, find_decoder(file, shape), file, format)).value();
}

/// Large enough for several threads, its attention too.
constexpr std::size_t long_prompt = 200;

}  // namespace

TEST_CASE("a token alone has the bits that it has layer after layer, in every family and format") {
  const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";
  for (const char* name : {"llama", "llama3", "qwen2", "gemma", "smollm3", "gguf/llama.gguf"})
    for (const WeightFormat format : {WeightFormat::exact, WeightFormat::bf16, WeightFormat::int8})
      for (const Dtype kv : {Dtype::f32, Dtype::bf16}) {
        INFO(name << " in format " << static_cast<int>(format));
        const Model model = Model::open(golden + name, format).value();
        CHECK(TokenStep::runs(model.text().shape().block));
        CHECK(steps(model.text(), kv, 5, false) == steps(model.text(), kv, 5, true));
      }
}

TEST_CASE("a token alone has the same bits on any number of threads") {
  for (const WeightFormat format : {WeightFormat::exact, WeightFormat::bf16, WeightFormat::int8}) {
    const Decoder text = random_decoder(format);
    limit_threads(1);
    const std::vector<float> want = steps(text, Dtype::f32, long_prompt, true);
    for (const std::size_t threads : {1, 2, 0}) {
      limit_threads(threads);
      CHECK(steps(text, Dtype::f32, long_prompt, false) == want);
    }
  }
  limit_threads(0);
}

TEST_CASE("forwards of two callers at once have the bits that they have alone") {
  const Decoder one = random_decoder(WeightFormat::bf16);
  const Decoder other = random_decoder(WeightFormat::int8);
  const std::vector<float> want[] = {steps(one, Dtype::f32, long_prompt, false),
                                     steps(other, Dtype::f32, long_prompt, false)};
  std::vector<float> got[2][3];
  std::latch begin(2);
  const auto caller = [&](const Decoder& text, std::vector<float>(&to)[3]) {
    begin.arrive_and_wait();
    for (std::vector<float>& each : to) each = steps(text, Dtype::f32, long_prompt, false);
  };
  std::thread beside([&] { caller(other, got[1]); });
  caller(one, got[0]);
  beside.join();
  for (std::size_t i = 0; i < 2; ++i)
    for (const std::vector<float>& each : got[i]) CHECK(each == want[i]);
}
