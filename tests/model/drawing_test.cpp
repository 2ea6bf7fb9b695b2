// Drawings of classes as tasks: those at different steps, and of different length, advance in the
// same forwards, and have the bits that they have alone.
#include "engine/tasks/drawing.h"

#include <catch2/catch.hpp>
#include <map>

#include "base/random.h"
#include "engine/family/model.h"
#include "engine/tasks/ddim_steps.h"
#include "engine/tasks/model_engine.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

struct Painter {
  Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/dit").value();
  KvPool pool;
  CpuText text;

  explicit Painter(std::size_t pages = 64)
      : pool(model.diffusion().kv_shape(4), pages), text(model.diffusion().trunk(), pool) {}

  std::vector<float> noise(std::uint64_t seed) const {
    SplitMix64 random(seed);
    std::vector<float> values(model.diffusion().shape().latent());
    for (float& v : values) v = static_cast<float>(random.normal());
    return values;
  }
  std::unique_ptr<Drawing> drawing(std::int64_t label, std::size_t steps, float guidance = 4,
                                   const DrawingOptions& options = {}) const {
    auto made = DdimSteps::make(model.diffusion(), label, {steps, guidance},
                                noise(static_cast<std::uint64_t>(label)));
    return std::make_unique<Drawing>(std::move(made).value(), KvSequence(),
                                     std::vector<std::int32_t>(), options);
  }
  std::vector<float> alone(std::int64_t label, std::size_t steps, float guidance = 4) {
    const auto drawing = this->drawing(label, steps, guidance);
    ModelEngine engine(text, {});
    engine.add(1, *drawing);
    std::vector<TaskId> advanced;
    while (engine.step(advanced)) continue;
    CHECK(advanced.size() == steps);
    REQUIRE_FALSE(drawing->error().has_value());
    return drawing->take_latents();
  }
};

}  // namespace

TEST_CASE(
    "drawings of different length advance in the same forwards, with the bits of each alone") {
  Painter painter;
  // Nine steps are more than those whose conditions are computed at once.
  const auto nine = painter.alone(3, 9), four = painter.alone(7, 4), plain = painter.alone(1, 6, 1);
  CHECK(nine != four);
  const auto a = painter.drawing(3, 9), b = painter.drawing(7, 4), c = painter.drawing(1, 6, 1);
  ModelEngine engine(painter.text, {});
  std::vector<std::map<TaskId, std::uint32_t>> forwards;
  engine.watch = [&](const ForwardRecord& forward) {
    auto& rows = forwards.emplace_back();
    for (const BatchItem& item : forward.items) rows[item.task] = item.rows;
  };
  std::vector<TaskId> advanced;
  engine.add(1, *a);
  REQUIRE(engine.step(advanced));  // so that they are at different steps
  engine.add(2, *b);
  engine.add(3, *c);
  while (engine.step(advanced)) continue;
  REQUIRE(forwards.size() == 9);
  for (std::size_t i = 0; i < forwards.size(); ++i) {
    std::map<TaskId, std::uint32_t> want{{1, 32}};
    if (i >= 1 && i < 5) want[2] = 32;
    if (i >= 1 && i < 7) want[3] = 16;  // not guided
    CHECK(forwards[i] == want);
  }
  CHECK(a->take_latents() == nine);
  CHECK(b->take_latents() == four);
  CHECK(c->take_latents() == plain);
  for (const TaskId id : {1, 2, 3}) engine.remove(id);
  CHECK(engine.empty());
  CHECK(painter.pool.pages_free() == painter.pool.pages());
}

TEST_CASE("what the budget has no room for takes turns, the urgent first") {
  Painter painter;
  const auto want = painter.alone(2, 3), want_urgent = painter.alone(5, 3);
  DrawingOptions urgent;
  urgent.priority = 1;
  const auto a = painter.drawing(2, 3), b = painter.drawing(5, 3, 4, urgent);
  PlannerOptions options;
  options.budget = 40;  // one, and not two
  ModelEngine engine(painter.text, options);
  std::vector<TaskId> order;
  engine.watch = [&](const ForwardRecord& forward) {
    for (const BatchItem& item : forward.items) order.push_back(item.task);
  };
  engine.add(1, *a);
  engine.add(2, *b);
  std::vector<TaskId> advanced;
  while (engine.step(advanced)) continue;
  CHECK(order == std::vector<TaskId>{2, 2, 2, 1, 1, 1});
  CHECK(a->take_latents() == want);
  CHECK(b->take_latents() == want_urgent);
}

TEST_CASE("each step of a drawing with a deadline has an equal part of the time") {
  Painter painter;
  const auto drawing = painter.drawing(2, 4, 4, {.priority = 3, .began = 1000, .deadline = 9000});
  ModelEngine engine(painter.text, {});
  engine.add(1, *drawing);
  std::vector<TaskId> advanced;
  for (const Nanoseconds deadline : {3000, 5000, 7000, 9000}) {
    CHECK(drawing->need(painter.text).deadline == deadline);
    CHECK(drawing->need(painter.text).priority == 3);
    CHECK(drawing->need(painter.text).kind == Need::Kind::step);
    REQUIRE(engine.step(advanced));
  }
  CHECK(drawing->done());
  CHECK(painter.drawing(2, 4)->need(painter.text).deadline == no_deadline);
}

TEST_CASE("a drawing that ends between two steps leaves the others as they are alone") {
  Painter painter(16);  // for two guided drawings: each is 16 rows twice
  const auto want = painter.alone(4, 5);
  auto kept = painter.drawing(4, 5), dropped = painter.drawing(6, 5), later = painter.drawing(4, 5);
  ModelEngine engine(painter.text, {});
  std::vector<TaskId> advanced;
  engine.add(1, *kept);
  engine.add(2, *dropped);
  engine.add(3, *later);
  REQUIRE(engine.step(advanced));
  REQUIRE(engine.step(advanced));
  CHECK(advanced == std::vector<TaskId>{1, 2, 1, 2});  // the third waits for pages
  engine.remove(2);
  dropped.reset();
  while (engine.step(advanced)) continue;
  CHECK(kept->take_latents() == want);
  CHECK(later->take_latents() == want);
}

TEST_CASE("what no drawing can begin with is refused") {
  Painter painter;
  const DiffusionTransformer& dit = painter.model.diffusion();
  const auto why = [&](std::int64_t label, std::size_t steps, std::size_t values) {
    const auto made = DdimSteps::make(dit, label, {steps, 4}, std::vector<float>(values));
    return made.ok() ? std::string() : made.error().message;
  };
  CHECK(why(10, 4, 256).empty());  // no class
  CHECK(why(11, 4, 256) == "class 11 is not from 0 to 10");
  CHECK(why(-1, 4, 256) == "class -1 is not from 0 to 10");
  CHECK(why(3, 0, 256) == "steps must be from 1 to 1000");
  CHECK(why(3, 1001, 256) == "steps must be from 1 to 1000");
  CHECK(why(3, 4, 255) == "the noise has 255 values, this model needs 256");
}
