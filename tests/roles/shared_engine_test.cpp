// Words and drawings of one model advance in the same forwards, whichever role asked, and come out
// as they do alone.
#include "engine/tasks/shared_engine.h"

#include <catch2/catch.hpp>
#include <deque>
#include <thread>

#include "fake_activation.h"
#include "roles/denoiser.h"
#include "roles/language_model.h"
#include "roles/paged_kv.h"

using namespace sluice;

namespace {

const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/models/scenes";

/// The language model and the denoiser over one paged_kv.
struct World {
  GlobalParamSpec param;
  RoleSpec role;
  std::unique_ptr<GlobalParam> shared;
  std::unique_ptr<SteppedRole> words, drawings;
  std::vector<StepOutcome> ended;
  std::deque<FakeActivation> activations;

  explicit World(std::int64_t pages = 200) {
    param.pages = pages;
    role.name.text = "llm";
    shared = PagedKv::make({&param, directory}).value();
    RoleMaking making;
    making.role = &role;
    making.model_directory = directory;
    making.global_params = {shared.get()};
    words = std::get<std::unique_ptr<SteppedRole>>(language_model_plugin().make(making).value());
    drawings = std::get<std::unique_ptr<SteppedRole>>(denoiser_plugin().make(making).value());
  }
  PagedKv& kv() { return static_cast<PagedKv&>(*shared); }

  FakeActivation& ask(const std::string& session, const std::string& text) {
    std::vector<float> rows;
    kv().backbone().embed(kv().tokenizer().encode(text), rows);
    const auto width = static_cast<std::int64_t>(kv().backbone().width());
    const auto count = static_cast<std::int64_t>(rows.size()) / width;
    FakeActivation& activation = activations.emplace_back("generate", session);
    activation.call_number = activations.size();
    activation.give("hidden", make_tensor(Tensor::of_f32({count, width}, std::move(rows)), {}));
    words->admit(activation);
    return activation;
  }
  FakeActivation& draw(const FakeActivation& asked) {
    FakeActivation& activation = activations.emplace_back("generate", std::string(asked.session()));
    activation.give("prompt", asked.frames.at(asked.frames.size() - 1).second);
    drawings->admit(activation);
    return activation;
  }
  void run() {
    while (words->busy() || drawings->busy()) {
      if (words->busy()) words->step(ended);
      if (drawings->busy()) drawings->step(ended);
    }
  }
};

constexpr const char* draw_it = "draw a red circle";
const std::vector<std::string> questions = {"what color is the circle", "what color is the square",
                                            "what color is the triangle"};

std::string said(const FakeActivation& activation) {
  std::string text;
  for (const auto& [field, payload] : activation.frames) text += payload->text;
  return text;
}
std::vector<float> latents(const FakeActivation& activation) {
  REQUIRE(activation.frames.size() == 1);
  const auto values = activation.frames[0].second->tensor.f32();
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("a drawing and three chats advance in the same forwards, and come out as alone") {
  std::vector<std::string> answers;
  for (const std::string& question : questions) {
    World alone;
    FakeActivation& asked = alone.ask("s", question);
    alone.run();
    answers.push_back(said(asked));
    CHECK(!answers.back().empty());
  }
  World still;
  FakeActivation& prompt = still.ask("d", draw_it);
  still.run();
  const std::vector<float> alone = latents([&]() -> FakeActivation& {
    FakeActivation& drawing = still.draw(prompt);
    still.run();
    return drawing;
  }());

  World world;
  FakeActivation& begun = world.ask("d", draw_it);
  world.run();
  std::size_t together = 0, forwards = 0;
  {
    SharedEngine::Turn turn(world.kv().engine());
    turn.engine().watch = [&](const ForwardRecord& forward) {
      std::size_t one_row = 0, blocks = 0;
      for (const BatchItem& item : forward.items) (item.rows == 1 ? one_row : blocks) += 1;
      together += one_row == questions.size() && blocks == 1 ? 1 : 0;
      ++forwards;
      CHECK(forward.took > 0);
    };
  }
  FakeActivation& drawing = world.draw(begun);
  std::vector<FakeActivation*> chats;
  for (std::size_t i = 0; i < questions.size(); ++i)
    chats.push_back(&world.ask("s" + std::to_string(i), questions[i]));
  world.run();
  CHECK(together >= 1);
  CHECK(forwards <= 1 + 24);  // and none of its own for anybody: about as many as the drawing's
  for (std::size_t i = 0; i < chats.size(); ++i) CHECK(said(*chats[i]) == answers[i]);
  const std::vector<float> drawn = latents(drawing);
  REQUIRE(drawn.size() == alone.size());
  for (std::size_t i = 0; i < drawn.size(); ++i) CHECK(std::abs(drawn[i] - alone[i]) < 1e-3F);
}

TEST_CASE("roles on threads of their own share the engine: all ends, and no page is lost") {
  World world;
  std::vector<FakeActivation*> asked;
  FakeActivation& begun = world.ask("d", draw_it);
  world.run();
  world.ended.clear();
  FakeActivation& drawing = world.draw(begun);
  for (std::size_t i = 0; i < questions.size(); ++i)
    asked.push_back(&world.ask("s" + std::to_string(i), questions[i]));
  std::vector<StepOutcome> drawn;
  std::thread other([&] {
    while (world.drawings->busy()) world.drawings->step(drawn);
  });
  while (world.words->busy()) world.words->step(world.ended);
  other.join();
  CHECK(drawn.size() == 1);
  CHECK(world.ended.size() == questions.size());
  for (const StepOutcome& outcome : world.ended) CHECK(outcome.result.ok());
  CHECK(drawn.at(0).result.ok());
  CHECK(latents(drawing).size() == 512);
  for (const char* session : {"d", "s0", "s1", "s2"}) world.shared->end_session(session);
  CHECK(world.kv().pool().pages_free() == world.kv().pool().pages());
}

TEST_CASE("a role that goes in the middle of an answer takes its tasks out, and others go on") {
  World world;
  FakeActivation& begun = world.ask("d", draw_it);
  world.run();
  world.ask("s0", questions[0]);
  world.words->step(world.ended);
  FakeActivation& drawing = world.draw(begun);
  world.drawings->step(world.ended);
  world.words.reset();
  while (world.drawings->busy()) world.drawings->step(world.ended);
  CHECK(latents(drawing).size() == 512);
  for (const char* session : {"d", "s0"}) world.shared->end_session(session);
  CHECK(world.kv().pool().pages_free() == world.kv().pool().pages());
}

TEST_CASE("two drawings of one session at once are the same, and leave it as it was") {
  World world;
  FakeActivation& begun = world.ask("d", draw_it);
  world.run();
  world.ended.clear();
  const std::size_t free = world.kv().pool().pages_free();
  FakeActivation& one = world.draw(begun);
  FakeActivation& two = world.draw(begun);
  world.run();
  CHECK(world.ended.size() == 2);
  CHECK(latents(one) == latents(two));
  CHECK(world.kv().pool().pages_free() == free);
}

TEST_CASE("a session goes on while a drawing is made of what it said before") {
  World world;
  FakeActivation& begun = world.ask("d", draw_it);
  world.run();
  FakeActivation& alone = world.draw(begun);
  world.run();
  FakeActivation& drawing = world.draw(begun);
  world.drawings->step(world.ended);
  FakeActivation& late = world.ask("d", questions[0]);
  world.words->step(world.ended);
  world.words->step(world.ended);
  CHECK(!said(late).empty());
  CHECK(drawing.frames.empty());
  world.run();
  const std::vector<float> one = latents(alone), other = latents(drawing);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(std::abs(one[i] - other[i]) < 1e-3F);
}
