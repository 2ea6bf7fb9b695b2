// A control cycle as a task: the actions that the policy gives by itself, beside answers of the
// same model.
#include "engine/tasks/control_cycle.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>

#include "base/random.h"
#include "engine/tasks/generation.h"
#include "engine/tasks/model_engine.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

struct Seen {
  std::vector<float> pictures, noise, state;
  std::vector<std::int32_t> tokens;
  Observation observation() const { return {pictures, tokens, state}; }
};

struct Robot {
  Model model;
  FlowPolicy policy;
  KvPool pool;
  CpuText text;

  explicit Robot(const std::string& family, std::size_t pages = 64)
      : model(Model::open(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + family).value()),
        policy(FlowPolicy::load(model).value()),
        pool(policy.kv_shape(4), pages),
        text(model.text(), pool) {}

  Seen seen(std::uint64_t seed, std::size_t cameras = 2) const {
    SplitMix64 random(seed);
    const auto draw = [&](std::size_t count) {
      std::vector<float> values(count);
      for (float& v : values) v = static_cast<float>(random.normal()) * 0.5F;
      return values;
    };
    const std::size_t side = model.vision().shape().side;
    Seen made{draw(cameras * 3 * side * side),
              draw(policy.shape().horizon * policy.shape().dims),
              draw(policy.shape().state_dims),
              {}};
    for (std::size_t i = 0; i < 5 + seed % 4; ++i)
      made.tokens.push_back(static_cast<std::int32_t>(random.next() % 100));
    return made;
  }
  /// By the policy itself.
  std::vector<float> alone(const Seen& seen, const FlowSchedule& schedule) {
    KvSequence prefix;
    const auto rows = policy.embed(seen.observation()).value();
    const std::size_t pictures = policy.picture_rows(seen.observation());
    REQUIRE(policy.prefill(pool, prefix, rows, pictures, nullptr).ok());
    ActionRequest request{&prefix, seen.noise, seen.state};
    REQUIRE(policy.act(pool, {&request, 1}, schedule).ok());
    return request.x;
  }
  std::unique_ptr<ControlCycle> cycle(const Seen& seen, const ControlOptions& options) {
    return std::move(ControlCycle::make(policy, {}, policy.embed(seen.observation()).value(),
                                        policy.picture_rows(seen.observation()), seen.noise,
                                        seen.state, options)
                         .value());
  }
  Generation answer(std::uint64_t seed, std::size_t tokens) {
    SplitMix64 random(seed);
    Generation made;
    for (int i = 0; i < 9; ++i)
      made.history.push_back(static_cast<std::int32_t>(random.next() % 100));
    std::span<const float> none;
    std::span<const Grid> grids;
    made.rows = model.prompt(made.history, none, grids).value().rows;
    made.options.tokens_max = tokens;
    return made;
  }
};

void run(ModelEngine& engine) {
  std::vector<TaskId> advanced;
  for (int i = 0; i < 200 && engine.step(advanced); ++i) continue;
  for (const TaskId id : advanced) engine.remove(id);
  REQUIRE(engine.empty());
}

/// Rows that are multiplied together with others differ in the last bits.
bool near(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(double{a.at(i)} - double{b[i]}, 2);
    size += std::pow(double{b[i]}, 2);
  }
  return a.size() == b.size() && std::sqrt(difference / size) < 2e-5;
}

ControlOptions in_steps(std::size_t steps) {
  ControlOptions options;
  options.schedule = {steps, 1.0F};
  return options;
}

}  // namespace

TEST_CASE("a control cycle in the engine has the policy's own actions, bit for bit") {
  for (const char* family : {"pi0", "pi05", "smolvla"}) {
    INFO(family);
    Robot robot(family);
    const Seen first = robot.seen(1), second = robot.seen(2, 1);
    const auto want_first = robot.alone(first, {4, 1.0F});
    const auto want_second = robot.alone(second, {3, 0.5F});
    ControlOptions warm;
    warm.schedule = {3, 0.5F};
    {
      ModelEngine engine(robot.text, {});
      const auto a = robot.cycle(first, in_steps(4));
      engine.add(1, *a);
      run(engine);
      CHECK(a->take_actions() == want_first);
      const auto b = robot.cycle(second, warm);
      engine.add(2, *b);
      run(engine);
      CHECK(b->take_actions() == want_second);
    }
    CHECK(robot.pool.pages_free() == robot.pool.pages());
    // Together, under schedules of their own.
    ModelEngine engine(robot.text, {});
    const auto a = robot.cycle(first, in_steps(4));
    const auto b = robot.cycle(second, warm);
    engine.add(1, *a);
    engine.add(2, *b);
    run(engine);
    CHECK(near(a->take_actions(), want_first));
    CHECK(near(b->take_actions(), want_second));
  }
}

TEST_CASE("actions and answers of one model advance in the same forwards, each as alone") {
  Robot robot("pi05");
  const Seen one = robot.seen(3), two = robot.seen(4);
  const std::vector<float> want_one = robot.alone(one, {10, 1.0F});
  const std::vector<float> want_two = robot.alone(two, {10, 1.0F});
  std::vector<std::int32_t> want_words;
  {
    GenerationTask alone(robot.answer(5, 12), nullptr);
    ModelEngine engine(robot.text, {});
    engine.add(1, alone);
    run(engine);
    want_words = alone.generation().tokens;
  }
  GenerationTask words(robot.answer(5, 12), nullptr);
  const auto a = robot.cycle(one, in_steps(10));
  const auto b = robot.cycle(two, in_steps(10));
  ModelEngine engine(robot.text, {});
  std::map<std::size_t, int> forwards;  // by how many tasks were in them
  engine.watch = [&](const ForwardRecord& record) { ++forwards[record.items.size()]; };
  engine.add(1, words);
  engine.add(2, *a);
  engine.add(3, *b);
  run(engine);
  CHECK(near(a->take_actions(), want_one));
  CHECK(near(b->take_actions(), want_two));
  CHECK(words.generation().tokens == want_words);
  // A prefix and ten steps of each robot, a prompt and eleven steps of the answer.
  CHECK(forwards == std::map<std::size_t, int>{{1, 1}, {3, 11}});
}

TEST_CASE("a prefix that is made once serves many cycles, and stays") {
  Robot robot("smolvla");
  const Seen seen = robot.seen(6);
  const std::vector<float> want = robot.alone(seen, {4, 1.0F});
  const auto prefix = robot.cycle(seen, in_steps(0));
  ModelEngine engine(robot.text, {});
  engine.add(1, *prefix);
  run(engine);
  KvSequence kept = prefix->release_prefix();
  for (int i = 0; i < 2; ++i) {
    auto cycle = ControlCycle::make(robot.policy, robot.pool.fork(kept), {}, 0, seen.noise,
                                    seen.state, in_steps(4))
                     .value();
    engine.add(2, *cycle);
    run(engine);
    CHECK(cycle->take_actions() == want);
  }
  CHECK(kept.tokens() ==
        robot.policy.embed(seen.observation()).value().size() / robot.model.text().width());
}

TEST_CASE("a cycle says when each of its steps must have ended") {
  Robot robot("pi0");
  ControlOptions options = in_steps(3);
  options.priority = 7;
  options.began = 1000;
  options.deadline = 9000;
  const auto cycle = robot.cycle(robot.seen(7), options);
  ModelEngine engine(robot.text, {});
  engine.add(1, *cycle);
  std::vector<TaskId> advanced;
  for (const Nanoseconds deadline : {3000, 5000, 7000, 9000}) {
    const Need need = cycle->need(robot.text);
    CHECK(need.deadline == deadline);
    CHECK(need.priority == 7);
    CHECK((need.kind == Need::Kind::prompt) == (deadline == 3000));
    REQUIRE(engine.step(advanced));
  }
  CHECK(cycle->done());
}

TEST_CASE("a cycle that cannot run says why and gives its pages back") {
  Robot robot("pi0", 4);
  const Seen seen = robot.seen(8);
  const auto cycle = robot.cycle(seen, in_steps(4));
  ModelEngine engine(robot.text, {});
  engine.add(1, *cycle);
  run(engine);
  REQUIRE(cycle->error().has_value());
  CHECK(cycle->error()->code == ErrorCode::exhausted);
  CHECK(robot.pool.pages_free() == 4);
  const auto refused = [&](std::vector<float> noise, std::vector<float> state, bool told) {
    std::vector<float> rows;
    if (told) rows = robot.policy.embed(seen.observation()).value();
    auto made = ControlCycle::make(robot.policy, {}, std::move(rows), 0, std::move(noise),
                                   std::move(state), in_steps(4));
    return made.ok() ? "" : made.error().message;
  };
  CHECK(refused({1, 2}, seen.state, true) == "the noise must be 6 x 8");
  CHECK(refused(seen.noise, {}, true) == "the state must have 8 values");
  CHECK(refused(seen.noise, seen.state, false) ==
        "there is nothing to act on: no picture, no instruction");
}
