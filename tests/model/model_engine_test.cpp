// Who waits for pages, while those of a task that is done are still with its owner.
#include "engine/tasks/model_engine.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <new>

#include "engine/tasks/generation.h"
#include "tests/directories.h"

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
  CHECK(engine.planner().promised() == 0);
}

namespace {

/// What cuts an answer off that a pool has to itself.
Generation::CutOff cut_off_of(const Model& model, KvPool& pool, Generation made) {
  CpuText text(model.text(), pool);
  model.text().embed(made.history, made.rows);
  GenerationTask task(std::move(made), nullptr);
  ModelEngine engine(text, {});
  engine.add(1, task);
  std::vector<TaskId> advanced;
  while (engine.step(advanced)) continue;
  CHECK(task.generation().finish == Generation::Finish::length);
  engine.remove(1);
  return task.cut_off();
}

}  // namespace

TEST_CASE("an answer says whether tokens, pages or the model's positions cut it off") {
  const Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  REQUIRE(model.text().shape().positions_max == 512);
  // Of a prompt of 500 tokens, by the answer's tokens and the pages of 16.
  const auto cut_off = [&](std::size_t tokens, std::size_t pages) {
    KvPool pool(model.text().kv_shape(16), pages);
    Generation made;
    made.history.assign(500, 20);
    made.options.tokens_max = tokens;
    return cut_off_of(model, pool, std::move(made));
  };
  CHECK(cut_off(3, 40) == Generation::CutOff::tokens);
  CHECK(cut_off(13, 32) == Generation::CutOff::tokens);  // the last is not written
  CHECK(cut_off(14, 40) == Generation::CutOff::positions);
  CHECK(cut_off(14, 32) == Generation::CutOff::positions);  // more pages would not help
}

TEST_CASE("an answer of fewer pages than the model has positions is cut off by them") {
  const Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  const auto cut_off = [&](std::size_t pages, std::size_t tenants, const std::string& tenant) {
    KvPool pool(model.text().kv_shape(4), pages);
    pool.limit_tenants(tenants);
    Generation made;
    made.history = {1, 3, 20, 21, 4};
    made.options.tokens_max = 40;
    made.options.tenant = tenant;
    return cut_off_of(model, pool, std::move(made));
  };
  CHECK(cut_off(3, 3, "") == Generation::CutOff::pages);
  CHECK(cut_off(3, 2, "") == Generation::CutOff::pages);  // nobody's
  CHECK(cut_off(3, 2, "lab") == Generation::CutOff::tenant);
  CHECK(cut_off(30, 3, "lab") == Generation::CutOff::tenant);
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

namespace {

/// Whose pages come at the third poll that waits.
struct LatePages final : PageSource {
  bool begin(std::uint64_t task, const RowsOrigin&, std::span<const std::int32_t>,
             std::optional<double>, std::int64_t) override {
    if (waits != 0) return false;
    waits = task;
    return true;
  }
  void forget(std::uint64_t) override { waits = 0; }
  void poll(std::int64_t, std::vector<Ready>& ready, std::chrono::nanoseconds most) override {
    longest = std::max(longest, most);
    polls += most.count() > 0 ? 1 : 0;
    glances += most.count() > 0 ? 0 : 1;
    if (waits == 0 || polls < 3) return;
    ready.push_back({waits, 0});
    waits = 0;
  }
  bool is_waited_for() const override { return waits != 0; }
  std::size_t pages_awaited() const override { return 0; }
  std::uint64_t waits = 0;
  int polls = 0, glances = 0;
  std::chrono::nanoseconds longest{};
};

}  // namespace

TEST_CASE("a step in which nobody runs waits for pages once, a moment, and lets others come in") {
  const Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  KvPool pool(model.text().kv_shape(4), 16);
  CpuText text(model.text(), pool);
  const auto asked = [&] {
    Generation made;
    made.history = {1, 3, 20, 21, 4};
    made.origin.model = "scenes";
    made.options.tokens_max = 2;
    model.text().embed(made.history, made.rows);
    return made;
  };
  LatePages pages;
  GenerationTask first(asked(), nullptr), second(asked(), nullptr);
  ModelEngine engine(text, {});
  engine.use(&pages);
  engine.add(1, first);
  REQUIRE(pages.waits == 1);
  std::vector<TaskId> advanced;
  CHECK_FALSE(engine.step(advanced));
  CHECK(pages.polls == 1);
  CHECK_FALSE(engine.step(advanced));
  CHECK(pages.polls == 2);
  CHECK(pages.glances == 1);  // nothing else was done between the two: the disk's own time
  CHECK(pages.longest <= std::chrono::milliseconds(10));
  engine.add(2, second);  // of another role
  CHECK(engine.step(advanced));
  CHECK(advanced == std::vector<TaskId>{2});
  CHECK(pages.polls == 2);
  while (!second.done()) REQUIRE(engine.step(advanced));
  CHECK_FALSE(first.done());
  REQUIRE(engine.step(advanced));  // they have come
  while (!first.done()) REQUIRE(engine.step(advanced));
  CHECK(first.generation().tokens == second.generation().tokens);
  engine.remove(1);
  engine.remove(2);
}

namespace {

/// Has pages that nobody asked for, and gives them back at the third poll that waits.
struct HeldPages final : PageSource {
  explicit HeldPages(KvPool& from, std::string_view tenant = {}) : pool(from) {
    pool.belong(held, tenant);
    SLUICE_CHECK(pool.reserve(held, 3 * pool.shape().page_tokens).ok());
  }
  bool begin(std::uint64_t, const RowsOrigin&, std::span<const std::int32_t>, std::optional<double>,
             std::int64_t) override {
    return false;
  }
  void forget(std::uint64_t) override {}
  void poll(std::int64_t, std::vector<Ready>&, std::chrono::nanoseconds most) override {
    polls += most.count() > 0 || counts_glances ? 1 : 0;
    if (polls == 3) pool.release(held);
  }
  bool is_waited_for() const override { return false; }
  std::size_t pages_awaited() const override { return 0; }
  bool holds_pages() const override { return polls < 3; }
  KvPool& pool;
  KvSequence held;
  int polls = 0;
  bool counts_glances = false;
};

/// An answer of 12 tokens, in four pages.
Generation long_answer(const Model& model, const std::string& tenant) {
  Generation made;
  made.history = {1, 3, 20};
  made.origin.model = "scenes";
  made.origin.tenant = made.options.tenant = tenant;
  made.options.tokens_max = 12;
  made.options.end_tokens.clear();
  model.text().embed(made.history, made.rows);
  return made;
}

}  // namespace

TEST_CASE("a task waits for pages that come back by themselves, and is not cut off for them") {
  const Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  KvPool pool(model.text().kv_shape(4), 4);
  CpuText text(model.text(), pool);
  HeldPages source(pool);
  CHECK(pool.pages_free() == 1);
  Generation made;
  made.history = {1, 3, 20};
  made.origin.model = "scenes";
  made.options.tokens_max = 12;
  made.options.end_tokens.clear();
  model.text().embed(made.history, made.rows);
  GenerationTask task(std::move(made), nullptr);
  ModelEngine engine(text, {});
  engine.use(&source);
  engine.add(1, task);
  std::vector<TaskId> advanced;
  int steps = 0;
  for (; !task.done() && steps < 100; ++steps) (void)engine.step(advanced);
  CHECK(task.done());
  CHECK_FALSE(task.generation().error.has_value());
  CHECK(task.generation().tokens.size() == 12);
  CHECK(source.polls == 3);
  engine.remove(1);
}

TEST_CASE("a tenant's task waits for its tenant's pages that come back, whoever else runs") {
  const Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  const bool another_runs = GENERATE(false, true);
  INFO(another_runs);
  KvPool pool(model.text().kv_shape(4), 16);
  pool.limit_tenants(4);
  CpuText text(model.text(), pool);
  HeldPages source(pool, "one");
  source.counts_glances = another_runs;
  CHECK(pool.tenant_room("one")->free() == 1);
  GenerationTask task(long_answer(model, "one"), nullptr);
  GenerationTask other(long_answer(model, "two"), nullptr);
  ModelEngine engine(text, {});
  engine.use(&source);
  if (another_runs) engine.add(1, other);
  engine.add(2, task);
  std::vector<TaskId> advanced;
  for (int steps = 0; !task.done() && steps < 100; ++steps) {
    (void)engine.step(advanced);
    if (another_runs && other.done()) engine.remove(1);
  }
  CHECK(task.done());
  CHECK_FALSE(task.generation().error.has_value());
  CHECK(task.generation().tokens.size() == 12);
  CHECK(source.polls >= 3);
  engine.remove(1);
  engine.remove(2);
}

namespace {

/// Has all that it is asked for, and never brings it.
struct EndlessPages final : PageSource {
  bool begin(std::uint64_t, const RowsOrigin&, std::span<const std::int32_t>, std::optional<double>,
             std::int64_t) override {
    return ++begun > 0;
  }
  void forget(std::uint64_t) override {}
  void poll(std::int64_t, std::vector<Ready>&, std::chrono::nanoseconds) override {}
  bool is_waited_for() const override { return begun > 0; }
  std::size_t pages_awaited() const override { return 0; }
  int begun = 0;
};

}  // namespace

TEST_CASE("nothing is read for a task that wants more than its tenant may have at all") {
  const Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  KvPool pool(model.text().kv_shape(4), 16);
  pool.limit_tenants(2);
  CpuText text(model.text(), pool);
  EndlessPages source;
  Generation made = long_answer(model, "one");
  made.history.resize(12, 20);
  made.rows.clear();
  model.text().embed(made.history, made.rows);
  GenerationTask task(std::move(made), nullptr);
  ModelEngine engine(text, {});
  engine.use(&source);
  engine.add(1, task);
  std::vector<TaskId> advanced;
  (void)engine.step(advanced);
  CHECK(source.begun == 0);
  REQUIRE(task.done());
  REQUIRE(task.generation().error.has_value());
  CHECK(task.generation().error->code == ErrorCode::exhausted);
  engine.remove(1);
}
