// Who waits for pages, while those of a task that is done are still with its owner.
#include "engine/tasks/model_engine.h"

#include <catch2/catch.hpp>
#include <new>

#include "engine/tasks/generation.h"

using namespace sluice;

TEST_CASE("an answer that waits for pages is not cut off while one that is done has them") {
  const Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  KvPool pool(model.text().kv_shape(4), 4);
  CpuText text(model.text(), pool);
  const auto asked = [&](std::size_t tokens) {
    Generation made;
    made.history = {1, 3, 20, 21, 4};
    made.options.tokens_max = tokens;
    made.options.share_prefix = false;
    model.text().embed(made.history, made.rows);
    return made;
  };
  GenerationTask first(asked(6), nullptr);   // 10 tokens: three pages
  GenerationTask second(asked(8), nullptr);  // 12 tokens: three pages
  ModelEngine engine(text, {});
  engine.add(1, first);
  engine.add(2, second);
  std::vector<TaskId> advanced;
  while (!first.done()) REQUIRE(engine.step(advanced));
  CHECK_FALSE(engine.step(advanced));  // the pages of the first are about to be free
  CHECK_FALSE(second.done());
  CHECK(engine.planner().waiting() == 1);
  CHECK(engine.planner().is_admitted(1));

  engine.remove(1);
  KvSequence taken = first.release().sequence;
  pool.release(taken);
  while (!second.done()) REQUIRE(engine.step(advanced));
  CHECK_FALSE(second.generation().error.has_value());
  CHECK(second.generation().tokens.size() == 8);
  CHECK(second.cut_off() == Generation::CutOff::tokens);
  engine.remove(2);
  CHECK(engine.empty());
  CHECK(engine.planner().reserved() == 0);
}

TEST_CASE("an answer says whether tokens, pages or the model's positions cut it off") {
  const Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  REQUIRE(model.text().shape().positions_max == 512);
  // Of a prompt of 500 tokens, by the answer's tokens and the pages of 16.
  const auto cut_off = [&](std::size_t tokens, std::size_t pages) {
    KvPool pool(model.text().kv_shape(16), pages);
    CpuText text(model.text(), pool);
    Generation made;
    made.history.assign(500, 20);
    made.options.tokens_max = tokens;
    model.text().embed(made.history, made.rows);
    GenerationTask task(std::move(made), nullptr);
    ModelEngine engine(text, {});
    engine.add(1, task);
    std::vector<TaskId> advanced;
    while (engine.step(advanced)) continue;
    CHECK(task.generation().finish == Generation::Finish::length);
    engine.remove(1);
    return task.cut_off();
  };
  CHECK(cut_off(3, 40) == Generation::CutOff::tokens);
  CHECK(cut_off(13, 32) == Generation::CutOff::tokens);  // the last is not written
  CHECK(cut_off(14, 40) == Generation::CutOff::positions);
  CHECK(cut_off(14, 32) == Generation::CutOff::positions);  // more pages would not help
}

TEST_CASE("an answer of fewer pages than the model has positions is cut off by them") {
  const Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  KvPool pool(model.text().kv_shape(4), 3);
  CpuText text(model.text(), pool);
  Generation made;
  made.history = {1, 3, 20, 21, 4};
  made.options.tokens_max = 40;
  model.text().embed(made.history, made.rows);
  GenerationTask task(std::move(made), nullptr);
  ModelEngine engine(text, {});
  engine.add(1, task);
  std::vector<TaskId> advanced;
  while (engine.step(advanced)) continue;
  CHECK(task.cut_off() == Generation::CutOff::pages);
  engine.remove(1);
}

TEST_CASE("who was in the forward before does not fail where memory runs out before a plan") {
  const Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  KvPool pool(model.text().kv_shape(4), 8);
  CpuText text(model.text(), pool);
  Generation made;
  made.history = {1, 3, 20, 21, 4};
  made.options.tokens_max = 4;
  model.text().embed(made.history, made.rows);
  GenerationTask task(std::move(made), nullptr);
  ModelEngine engine(text, {});
  engine.add(1, task);
  std::vector<TaskId> advanced;
  REQUIRE(engine.step(advanced));
  advanced.clear();
  engine.make_room = [](const Planner&) { throw std::bad_alloc(); };
  CHECK(engine.step(advanced));
  CHECK(advanced.empty());
  engine.make_room = nullptr;
  while (!task.done()) REQUIRE(engine.step(advanced));
  CHECK_FALSE(task.generation().error.has_value());
  CHECK(task.generation().tokens.size() == 4);
  engine.remove(1);
}
