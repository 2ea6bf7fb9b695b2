// The engine's f32 forward against the training framework's, and its equalities with itself.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "base/random.h"
#include "engine/layers/decoder.h"
#include "engine/scenes/flow.h"
#include "engine/scenes/vision.h"

using namespace sluice;

namespace {

constexpr double limit = 2e-5;
const std::string root = SLUICE_SOURCE_DIR;

struct Loaded {
  SafetensorsFile golden =
      std::move(SafetensorsFile::open(root + "/tests/data/scenes_golden.safetensors")).value();
  SafetensorsFile file =
      std::move(SafetensorsFile::open(root + "/models/scenes/model.safetensors")).value();
  ModelConfig config = std::move(ModelConfig::load(root + "/models/scenes")).value();

  std::vector<float> values(const std::string& name) const {
    const Tensor tensor = std::move(golden.load(name)).value();
    return {tensor.f32().begin(), tensor.f32().end()};
  }
  std::vector<std::int32_t> ids(const std::string& name) const {
    const Tensor tensor = std::move(golden.load(name)).value();
    return {tensor.i32().begin(), tensor.i32().end()};
  }
};

double relative_error(std::span<const float> got, std::span<const float> want) {
  REQUIRE(got.size() == want.size());
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(double{got[i]} - double{want[i]}, 2);
    size += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(difference / size);
}

/// The golden prompt as rows: words embedded, the picture's features in their place.
std::vector<float> prompt_rows(const Loaded& loaded, const Decoder& backbone) {
  std::vector<float> rows;
  backbone.embed(loaded.ids("text.ids"), rows);
  const std::vector<float> features = loaded.values("vision.features");
  std::copy(features.begin(), features.end(),
            rows.begin() + static_cast<std::ptrdiff_t>(3 * backbone.width()));
  return rows;
}

std::vector<float> prefill(const Decoder& backbone, KvPool& pool, KvSequence& sequence,
                           std::span<const float> rows) {
  std::vector<float> hidden;
  const Chunk chunk{&sequence, rows};
  REQUIRE(backbone.forward(pool, {&chunk, 1}, hidden).ok());
  return hidden;
}

}  // namespace

TEST_CASE("the vision encoder gives the training framework's features") {
  const Loaded loaded;
  const Vision vision = std::move(Vision::load(loaded.config, loaded.file)).value();
  const Tensor pixels = std::move(loaded.golden.load("vision.in")).value();
  const Tensor features = vision.encode(pixels);
  const std::vector<float> want = loaded.values("vision.features");
  CHECK(relative_error(features.f32(), want) < limit);
  // A planted mistake: another epsilon in the norms.
  ModelConfig other = loaded.config;
  other.vision.eps = 1e-2F;
  const Tensor wrong = std::move(Vision::load(other, loaded.file)).value().encode(pixels);
  CHECK(relative_error(wrong.f32(), want) > 10 * limit);
}

TEST_CASE("prefill and greedy decoding give the training framework's hidden rows and tokens") {
  const Loaded loaded;
  const Decoder backbone =
      std::move(Decoder::load(loaded.config.decoder(), ModelConfig::decoder_names(), loaded.file))
          .value();
  KvPool pool(backbone.kv_shape(16), 8);
  KvSequence sequence;
  std::vector<float> hidden = prefill(backbone, pool, sequence, prompt_rows(loaded, backbone));
  CHECK(relative_error(hidden, loaded.values("text.hidden")) < limit);
  std::vector<float> logits;
  backbone.logits(hidden, logits);
  CHECK(relative_error(logits, loaded.values("text.logits")) < limit);

  const std::vector<std::int32_t> answer = loaded.ids("answer.ids");
  std::vector<std::int32_t> got;
  while (got.size() < answer.size()) {
    backbone.logits(std::span(hidden).last(backbone.width()), logits);
    got.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
    std::vector<float> row;
    backbone.embed({&got.back(), 1}, row);
    hidden = prefill(backbone, pool, sequence, row);
  }
  CHECK(got == answer);
}

TEST_CASE("planted mistakes in the backbone fail the golden comparison") {
  const Loaded loaded;
  const std::vector<float> want = loaded.values("text.hidden");
  for (const char* mistake : {"epsilon", "theta"}) {
    ModelConfig config = loaded.config;
    if (std::string(mistake) == "epsilon") config.rms_eps = 1e-2F;
    if (std::string(mistake) == "theta") config.rope_theta = 1e5;
    const Decoder backbone =
        std::move(Decoder::load(config.decoder(), ModelConfig::decoder_names(), loaded.file))
            .value();
    KvPool pool(backbone.kv_shape(16), 8);
    KvSequence sequence;
    INFO(mistake);
    CHECK(relative_error(prefill(backbone, pool, sequence, prompt_rows(loaded, backbone)), want) >
          10 * limit);
  }
}

TEST_CASE("a drawing's velocity and latents are the training framework's") {
  const Loaded loaded;
  const Decoder backbone =
      std::move(Decoder::load(loaded.config.decoder(), ModelConfig::decoder_names(), loaded.file))
          .value();
  const Flow flow = std::move(Flow::load(loaded.config, loaded.file)).value();
  KvPool pool(backbone.kv_shape(16), 16);
  const auto begin = [&](const std::vector<std::int32_t>& ids) {
    KvSequence sequence;
    std::vector<float> rows;
    backbone.embed(ids, rows);
    prefill(backbone, pool, sequence, rows);
    return sequence;
  };
  const std::vector<float> noise = flow.noise(7);
  CHECK(relative_error(noise, loaded.values("draw.noise")) < 1e-7);
  KvSequence prompt = begin(loaded.ids("draw.ids"));
  KvSequence* one[] = {&prompt};
  const auto velocity = flow.velocity(backbone, pool, one, noise, 0.75);
  REQUIRE(velocity.ok());
  CHECK(relative_error(velocity->front(), loaded.values("draw.velocity")) < limit);
  CHECK(prompt.tokens == loaded.ids("draw.ids").size());

  KvSequence wordless =
      begin({loaded.config.bos, loaded.config.user, loaded.config.assistant, loaded.config.draw});
  FlowOptions options;
  options.steps = loaded.config.denoiser.steps;
  options.guidance = loaded.config.denoiser.guidance;
  const auto drawn =
      flow.draw(backbone, pool, prompt, &wordless, noise, options, [] { return true; });
  REQUIRE(drawn.ok());
  // Sixteen guided steps widen the rounding of one.
  CHECK(relative_error(*drawn, loaded.values("draw.latents")) < 10 * limit);

  // From the middle of the way: Euler's steps over the velocities that were compared above.
  options.start = 0.5;
  options.steps = 4;
  options.guidance = 3;
  KvSequence* both[] = {&prompt, &wordless};
  std::vector<float> x = noise;
  for (const double t : {0.5, 0.375, 0.25, 0.125}) {
    const auto v = std::move(flow.velocity(backbone, pool, both, x, t)).value();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= 0.125F * (v[1][i] + 3 * (v[0][i] - v[1][i]));
  }
  const auto half =
      flow.draw(backbone, pool, prompt, &wordless, noise, options, [] { return true; });
  REQUIRE(half.ok());
  CHECK(relative_error(*half, x) < 1e-6);
  int asked = 0;
  const auto stopped =
      flow.draw(backbone, pool, prompt, &wordless, noise, options, [&] { return ++asked < 3; });
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().code == ErrorCode::cancelled);
  CHECK(asked == 3);
}

TEST_CASE("ragged is one by one, chunked is at once, and a batch is its members") {
  const Loaded loaded;
  const Decoder backbone =
      std::move(Decoder::load(loaded.config.decoder(), ModelConfig::decoder_names(), loaded.file))
          .value();
  const std::size_t width = backbone.width();
  SplitMix64 random(3);
  std::vector<std::vector<float>> prompts;
  for (const std::size_t tokens : {1U, 5U, 17U, 40U}) {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < tokens; ++i)
      ids.push_back(static_cast<std::int32_t>(random.next() % 100));
    backbone.embed(ids, prompts.emplace_back());
  }
  KvPool pool(backbone.kv_shape(4), 200);
  std::vector<std::vector<float>> alone;
  std::vector<KvSequence> together(prompts.size());
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    KvSequence sequence;
    alone.push_back(prefill(backbone, pool, sequence, prompts[i]));
    pool.truncate(sequence, 0);
    chunks.push_back({&together[i], prompts[i], i == 2 ? Mask::block : Mask::causal});
  }
  std::vector<float> hidden;
  REQUIRE(backbone.forward(pool, chunks, hidden).ok());
  std::size_t at = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto part = std::span(hidden).subspan(at, prompts[i].size());
    at += prompts[i].size();
    if (i == 2)
      CHECK(relative_error(part, alone[i]) > 1e-3);  // a block sees what a causal prompt does not
    else
      CHECK(relative_error(part, alone[i]) < 2e-6);
  }
  KvSequence chunked;
  std::vector<float> last;
  for (std::size_t from = 0; from < prompts[3].size(); from += 7 * width)
    last =
        prefill(backbone, pool, chunked,
                std::span(prompts[3]).subspan(from, std::min(7 * width, prompts[3].size() - from)));
  CHECK(relative_error(std::span(last).last(width), std::span(alone[3]).last(width)) < 2e-6);
}

TEST_CASE("a full pool and a full context are named errors that change nothing") {
  const Loaded loaded;
  const Decoder backbone =
      std::move(Decoder::load(loaded.config.decoder(), ModelConfig::decoder_names(), loaded.file))
          .value();
  KvPool pool(backbone.kv_shape(16), 2);
  std::vector<float> rows;
  backbone.embed(std::vector<std::int32_t>(20, 20), rows);
  KvSequence first;
  KvSequence second;
  prefill(backbone, pool, first, rows);
  CHECK(pool.pages_free() == 0);
  std::vector<float> hidden;
  const Chunk chunks[] = {{&first, std::span(rows).first(backbone.width())}, {&second, rows}};
  const Result<void> full = backbone.forward(pool, chunks, hidden);
  REQUIRE(!full.ok());
  CHECK(full.error().code == ErrorCode::exhausted);
  CHECK(first.tokens == 20);
  CHECK(second.tokens == 0);
  ModelConfig narrow = loaded.config;
  narrow.positions_max = 20;
  const Decoder small =
      std::move(Decoder::load(narrow.decoder(), ModelConfig::decoder_names(), loaded.file)).value();
  const Chunk more{&first, std::span(rows).first(backbone.width())};
  const Result<void> long_talk = small.forward(pool, {&more, 1}, hidden);
  REQUIRE(!long_talk.ok());
  CHECK(long_talk.error().message.find("start a new session") != std::string::npos);
}
