// The engine's f32 forward against the training framework's, and its equalities with itself.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "base/random.h"
#include "engine/family/model.h"
#include "engine/picture/picture_input.h"
#include "engine/tasks/drawing.h"
#include "engine/tasks/flow_steps.h"
#include "engine/tasks/model_engine.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

constexpr double limit = 2e-5;
const std::string root = SLUICE_SOURCE_DIR;

struct Loaded {
  SafetensorsFile golden =
      std::move(SafetensorsFile::open(root + "/tests/data/scenes_golden.safetensors")).value();
  SafetensorsFile file =
      std::move(SafetensorsFile::open(root + "/models/scenes/model.safetensors")).value();
  Architecture architecture = std::move(Architecture::load(root + "/models/scenes")).value();

  Model model(ModelParts parts = ModelParts::all) const { return model(architecture, parts); }
  Model model(const Architecture& other, ModelParts parts = ModelParts::all) const {
    return std::move(Model::load(other, file, kernels::WeightFormat::exact, parts)).value();
  }

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
  const PictureSteps steps =
      PictureSteps::load(root + "/models/scenes", loaded.architecture).value();
  const PictureInput picture = prepare_picture(steps, loaded.architecture,
                                               std::move(loaded.golden.load("vision.in")).value())
                                   .value();
  const std::vector<float> want = loaded.values("vision.features");
  CHECK(picture.feature_rows * loaded.architecture.text->block.width == want.size());
  const auto features_of = [&](const Architecture& architecture) {
    return loaded.model(architecture, ModelParts::pictures).features(picture.pixels, {}).value();
  };
  CHECK(relative_error(features_of(loaded.architecture), want) < limit);
  // Planted mistakes: another epsilon in the norms; a projector of another width, which is refused.
  Architecture other = loaded.architecture;
  other.vision->block.eps = 1e-2F;
  CHECK(relative_error(features_of(other), want) > 10 * limit);
  other = loaded.architecture;
  other.projector_hidden /= 2;
  CHECK_FALSE(Model::load(other, loaded.file, kernels::WeightFormat::exact).ok());
}

TEST_CASE("prefill and greedy decoding give the training framework's hidden rows and tokens") {
  const Loaded loaded;
  const Model model = loaded.model();
  const Decoder& backbone = model.text();
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
    Architecture other = loaded.architecture;
    if (std::string(mistake) == "epsilon") other.text->block.eps = 1e-2F;
    if (std::string(mistake) == "theta") other.text->rope.theta = 1e5;
    const Model model = loaded.model(other);
    const Decoder& backbone = model.text();
    KvPool pool(backbone.kv_shape(16), 8);
    KvSequence sequence;
    INFO(mistake);
    CHECK(relative_error(prefill(backbone, pool, sequence, prompt_rows(loaded, backbone)), want) >
          10 * limit);
  }
}

TEST_CASE("a drawing's velocity and latents are the training framework's") {
  const Loaded loaded;
  const Model model = loaded.model();
  const Decoder& backbone = model.text();
  const LatentFlow& flow = model.flow();
  KvPool pool(backbone.kv_shape(16), 16);
  CpuText text(backbone, pool);
  const auto begin = [&](const std::vector<std::int32_t>& ids) {
    KvSequence sequence;
    std::vector<float> rows;
    backbone.embed(ids, rows);
    prefill(backbone, pool, sequence, rows);
    return sequence;
  };
  // Behind a sequence, which is left as it was.
  const auto velocity = [&](KvSequence& sequence, std::span<const float> x, double t) {
    const std::vector<float> rows = flow.rows(x, t);
    const Chunk chunk{&sequence, rows, Mask::block};
    std::vector<float> hidden;
    REQUIRE(backbone.forward(pool, {&chunk, 1}, hidden).ok());
    pool.truncate(sequence, sequence.tokens() - flow.shape().tokens);
    return flow.velocity_of(hidden, x, t);
  };
  const auto draw = [&](const KvSequence& prompt, const FlowOptions& options) {
    Drawing drawing(std::make_unique<FlowSteps>(flow, flow.noise(7), options), pool.fork(prompt),
                    model.architecture().turns->wordless_drawing(), {});
    ModelEngine engine(text, {});
    engine.add(1, drawing);
    std::vector<TaskId> advanced;
    while (!drawing.done()) REQUIRE(engine.step(advanced));
    REQUIRE_FALSE(drawing.error().has_value());
    return drawing.take_latents();
  };
  const std::vector<float> noise = flow.noise(7);
  CHECK(relative_error(noise, loaded.values("draw.noise")) < 1e-7);
  KvSequence prompt = begin(loaded.ids("draw.ids"));
  CHECK(relative_error(velocity(prompt, noise, 0.75), loaded.values("draw.velocity")) < limit);

  FlowOptions options;
  options.steps = flow.shape().steps;
  options.guidance = flow.shape().guidance;
  // Sixteen guided steps widen the rounding of one.
  CHECK(relative_error(draw(prompt, options), loaded.values("draw.latents")) < 10 * limit);
  CHECK(prompt.tokens() == loaded.ids("draw.ids").size());

  // From the middle of the way: Euler's steps over velocities as compared above.
  options.start = 0.5;
  options.steps = 4;
  options.guidance = 3;
  KvSequence wordless = begin(model.architecture().turns->wordless_drawing());
  std::vector<float> x = noise;
  for (const double t : {0.5, 0.375, 0.25, 0.125}) {
    const std::vector<float> with = velocity(prompt, x, t), without = velocity(wordless, x, t);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] -= 0.125F * (without[i] + 3 * (with[i] - without[i]));
  }
  CHECK(relative_error(draw(prompt, options), x) < 1e-5);
}

TEST_CASE("ragged is one by one, chunked is at once, and a batch is its members") {
  const Loaded loaded;
  const Model model = loaded.model();
  const Decoder& backbone = model.text();
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
  const Model model = loaded.model();
  const Decoder& backbone = model.text();
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
  CHECK(first.tokens() == 20);
  CHECK(second.tokens() == 0);
  Architecture narrow = loaded.architecture;
  narrow.text->positions_max = 20;
  const Model short_model = loaded.model(narrow);
  const Decoder& small = short_model.text();
  const Chunk more{&first, std::span(rows).first(backbone.width())};
  const Result<void> long_talk = small.forward(pool, {&more, 1}, hidden);
  REQUIRE(!long_talk.ok());
  CHECK(long_talk.error().message.find("start a new session") != std::string::npos);
}
