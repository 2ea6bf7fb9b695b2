// A forward or its logits fail for one task: that task says why, the others do not notice.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <new>

#include "engine/tasks/generation.h"
#include "engine/tasks/model_engine.h"
#include "engine/tasks/shared_prefix.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

/// Refuses forwards that have a chunk of a kind in them, and as many logits as it is told.
class Refusing final : public TextEngine {
 public:
  explicit Refusing(TextEngine& inner) : inner_(inner) {}
  const DecoderShape& shape() const override { return inner_.shape(); }
  KvPages& pages() override { return inner_.pages(); }
  void embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const override {
    inner_.embed(tokens, rows);
  }
  Result<void> forward(std::span<const Chunk> chunks, std::vector<float>& hidden) override {
    ++forwards;
    for (const Chunk& chunk : chunks)
      if (refuses && refuses(chunk)) return invalid_argument("this chunk cannot be run");
    if (throws_at != 0 && --throws_at == 0) {
      for (const Chunk& chunk : chunks)
        extend(*chunk.sequence, chunk.embeddings.size() / shape().block.width);
      throw std::bad_alloc();
    }
    return inner_.forward(chunks, hidden);
  }
  Result<void> logits(std::span<const float> hidden, std::vector<float>& logits) override {
    if (logits_refused != 0 && --logits_refused == 0)
      return invalid_argument("there are no logits today");
    return inner_.logits(hidden, logits);
  }

  bool steps(const kernels::SampleOptions&) const override { return steps_fail; }
  Result<void> step(std::span<const DecodeStep> steps, std::vector<std::int32_t>&) override {
    for (const DecodeStep& one : steps) extend(*one.sequence, 1);
    return Error{ErrorCode::unavailable, "the device is gone"};
  }

  bool steps_fail = false;  // tried, once their rows have their places
  std::function<bool(const Chunk&)> refuses;
  int logits_refused = 0;  // the n-th from now on; 0: none
  int throws_at = 0;       // the n-th forward from now on, once its rows have their places
  int forwards = 0;

 private:
  void extend(KvSequence& sequence, std::size_t rows) {
    std::vector<CopyPage> copies;
    REQUIRE(inner_.pages().extend(sequence, rows, copies).ok());
    REQUIRE(copies.empty());
  }

  TextEngine& inner_;
};

/// An answer for which memory runs out as it takes what came of its n-th work.
class Starved : public Task {
 public:
  Starved(GenerationTask& inner, int at) : inner_(inner), at_(at) {}
  bool done() const override { return inner_.done(); }
  PagesWanted pages_wanted(TextEngine& engine) const override {
    return inner_.pages_wanted(engine);
  }
  void grant(TextEngine& engine, std::size_t pages) override { inner_.grant(engine, pages); }
  std::size_t pages_taken() const override { return inner_.pages_taken(); }
  Need need(const TextEngine& engine) const override { return inner_.need(engine); }
  void lay_out(const TextEngine& engine, std::size_t rows, Work& work) override {
    inner_.lay_out(engine, rows, work);
  }
  void take(TextEngine& engine, const StepResult& result) override {
    if (--at_ == 0) throw std::bad_alloc();
    inner_.take(engine, result);
  }
  void fail(const Error& error) override { inner_.fail(error); }

 private:
  GenerationTask& inner_;
  int at_;
};

/// One for which memory runs out when it is asked what it wants, or when it is granted that.
class Unbegun final : public Starved {
 public:
  Unbegun(GenerationTask& inner, bool at_grant) : Starved(inner, 0), at_grant_(at_grant) {}
  PagesWanted pages_wanted(TextEngine& engine) const override {
    if (!at_grant_) throw std::bad_alloc();
    return Starved::pages_wanted(engine);
  }
  void grant(TextEngine&, std::size_t) override { throw std::bad_alloc(); }

 private:
  bool at_grant_;
};

struct World {
  Model model = Model::open(std::string(SLUICE_SOURCE_DIR) + "/models/scenes").value();
  KvPool pool{model.text().kv_shape(4), 64};
  CpuText text{model.text(), pool};
  Refusing refusing{text};
  ModelEngine engine{refusing, {}};
  std::vector<std::unique_ptr<GenerationTask>> tasks;
  std::vector<std::unique_ptr<Starved>> starved;

  /// An answer to a prompt of so many tokens.
  GenerationTask& ask(std::size_t prompt, int starved_at = 0) {
    Generation made;
    made.history.assign(prompt, 20);
    made.history[0] = 1;
    made.options.tokens_max = 5;
    made.options.share_prefix = false;
    model.text().embed(made.history, made.rows);
    tasks.push_back(std::make_unique<GenerationTask>(std::move(made), nullptr));
    Task* task = tasks.back().get();
    if (starved_at != 0)
      task = starved.emplace_back(std::make_unique<Starved>(*tasks.back(), starved_at)).get();
    engine.add(tasks.size(), *task);
    return *tasks.back();
  }
  void run() {
    std::vector<TaskId> advanced;
    while (engine.step(advanced)) continue;
    for (TaskId id = 1; id <= tasks.size(); ++id) engine.remove(id);
  }
  std::size_t width() const { return model.text().width(); }
};

/// What the same prompts are answered where nothing fails.
std::vector<std::vector<std::int32_t>> undisturbed(const std::vector<std::size_t>& prompts) {
  World world;
  for (const std::size_t prompt : prompts) world.ask(prompt);
  world.run();
  std::vector<std::vector<std::int32_t>> answers;
  for (const auto& task : world.tasks) {
    REQUIRE_FALSE(task->generation().error.has_value());
    answers.push_back(task->generation().tokens);
  }
  return answers;
}

}  // namespace

TEST_CASE("a forward that fails is run task by task, and only who is to blame fails") {
  const std::vector<std::size_t> prompts{5, 7, 6};
  const auto answers = undisturbed(prompts);
  // The second cannot be run: from its prompt on, or in the middle of its answer.
  for (const std::size_t before : {0U, 8U}) {
    World world;
    for (const std::size_t prompt : prompts) world.ask(prompt);
    const std::size_t rows = before == 0 ? 7 : 1;
    // Its sequence is known by its prompt, the only one of seven tokens.
    int refused = 0;
    const KvSequence* bad = nullptr;
    world.refusing.refuses = [&](const Chunk& chunk) {
      if (bad == nullptr && chunk.embeddings.size() == 7 * world.width()) bad = chunk.sequence;
      const bool now = chunk.sequence == bad && chunk.sequence->tokens() == before &&
                       chunk.embeddings.size() == rows * world.width();
      refused += now ? 1 : 0;
      return now;
    };
    world.run();
    INFO(before);
    CHECK(refused == 2);  // with the others, and alone
    const Generation& failed = world.tasks[1]->generation();
    CHECK(failed.finish == Generation::Finish::failed);
    REQUIRE(failed.error.has_value());
    CHECK(failed.error->message == "this chunk cannot be run");
    CHECK(failed.tokens.size() == (before == 0 ? 0 : 2));
    CHECK(world.tasks[0]->generation().tokens == answers[0]);
    CHECK(world.tasks[2]->generation().tokens == answers[2]);
    CHECK_FALSE(world.tasks[0]->generation().error.has_value());
    CHECK_FALSE(world.tasks[2]->generation().error.has_value());
    CHECK(world.engine.empty());
    CHECK(world.engine.planner().promised() == 0);
  }
}

TEST_CASE("of two that are in a forward that fails, the other goes on") {
  World world;
  world.ask(5);
  world.ask(7);
  world.refusing.refuses = [&](const Chunk& chunk) {
    return chunk.embeddings.size() == 7 * world.width();
  };
  world.run();
  CHECK(world.tasks[0]->generation().tokens == undisturbed({5, 7})[0]);
  CHECK(world.tasks[1]->generation().finish == Generation::Finish::failed);
}

TEST_CASE("logits that cannot be had fail those who wanted them") {
  World world;
  world.ask(5);
  world.ask(7);
  world.refusing.logits_refused = 2;  // behind the first token of both
  world.run();
  for (const auto& task : world.tasks) {
    const Generation& one = task->generation();
    CHECK(one.finish == Generation::Finish::failed);
    REQUIRE(one.error.has_value());
    CHECK(one.error->message == "there are no logits today");
    CHECK(one.tokens.size() == 1);
  }
  CHECK(world.engine.empty());
}

TEST_CASE(
    "memory that runs out for one that takes its rows is that one's failure, not the others'") {
  const std::vector<std::size_t> prompts{5, 7, 6};
  const auto answers = undisturbed(prompts);
  for (const int at : {1, 3}) {
    World world;
    for (const std::size_t prompt : prompts) world.ask(prompt, prompt == 7 ? at : 0);
    std::vector<TaskId> advanced;
    std::vector<int> times(4);
    while (world.engine.step(advanced)) {
      for (const TaskId id : advanced) ++times[id];
      advanced.clear();
    }
    CHECK(times == std::vector<int>{0, 5, at, 5});  // it is told of like the others
    for (TaskId id = 1; id <= 3; ++id) world.engine.remove(id);
    const Generation& failed = world.tasks[1]->generation();
    CHECK(failed.finish == Generation::Finish::failed);
    REQUIRE(failed.error.has_value());
    CHECK(failed.error->code == ErrorCode::exhausted);
    CHECK(failed.error->message == "out of memory");
    CHECK(world.tasks[0]->generation().tokens == answers[0]);
    CHECK(world.tasks[2]->generation().tokens == answers[2]);
    CHECK(world.engine.empty());
    CHECK(world.engine.planner().promised() == 0);
  }
}

TEST_CASE("rows of a forward that throws are not there, nor found by who asks the same again") {
  const auto ask = [](World& world, KvSequence kept) -> Generation {
    Generation made;
    for (std::int32_t i = 0; i < 13; ++i) made.history.push_back(i == 0 ? 1 : 20 + i);
    made.options.tokens_max = 8;
    made.origin.model = "the model";
    world.model.text().embed(made.history, made.rows);
    // As a conversation does that keeps what a failed turn left.
    take_prefix(world.pool, std::move(kept), made.origin, made.history, made, world.width(), false);
    GenerationTask task(std::move(made), nullptr);
    world.engine.add(1, task);
    std::vector<TaskId> advanced;
    while (!task.done()) REQUIRE(world.engine.step(advanced));
    world.engine.remove(1);
    return task.release();
  };
  World still;
  const std::vector<std::int32_t> want = ask(still, {}).tokens;
  REQUIRE(want.size() >= 4);
  for (const int at : {1, 4}) {
    INFO(at);
    World world;
    world.refusing.throws_at = at;
    Generation failed = ask(world, {});
    REQUIRE(failed.error.has_value());
    CHECK(failed.error->message.starts_with("the forward could not be run"));
    // The prompt, and the answer's tokens but the last.
    CHECK(failed.sequence.tokens() == (at == 1 ? 0U : 13U + 2U));
    Generation again = ask(world, std::move(failed.sequence));
    CHECK(again.tokens == want);
    CHECK(ask(world, {}).tokens == want);  // over the pages that the one before has published
  }
}

TEST_CASE("a task for which memory runs out before it is planned is in nobody's way") {
  const auto answers = undisturbed({5, 7});
  for (const bool at_grant : {false, true}) {
    INFO(at_grant);
    World world;
    Generation asked;
    asked.history.assign(6, 20);
    asked.options.tokens_max = 5;
    world.model.text().embed(asked.history, asked.rows);
    GenerationTask inner(std::move(asked), nullptr);
    Unbegun unbegun(inner, at_grant);
    world.ask(5);
    world.ask(7);
    if (at_grant)
      world.engine.add(9, unbegun);
    else
      CHECK_THROWS_AS(world.engine.add(9, unbegun), std::bad_alloc);
    std::vector<TaskId> advanced;
    while (world.engine.step(advanced)) continue;
    CHECK(std::ranges::count(advanced, TaskId{9}) == (at_grant ? 1 : 0));
    CHECK(inner.generation().error.has_value() == at_grant);
    for (const TaskId id : {TaskId{1}, TaskId{2}, TaskId{9}}) world.engine.remove(id);
    CHECK(world.tasks[0]->generation().tokens == answers[0]);
    CHECK(world.tasks[1]->generation().tokens == answers[1]);
    CHECK(world.engine.empty());
    CHECK(world.engine.planner().promised() == 0);
  }
}

TEST_CASE("a step that fails behind its places is run as a forward, over the same rows") {
  World world;
  world.refusing.steps_fail = true;
  world.ask(5);
  world.ask(7);
  world.run();
  const auto answers = undisturbed({5, 7});
  for (const std::size_t i : {0U, 1U}) {
    CHECK(world.tasks[i]->generation().tokens == answers[i]);
    CHECK(world.tasks[i]->generation().sequence.tokens() == (i == 0 ? 5U : 7U) + 4U);
  }
}
