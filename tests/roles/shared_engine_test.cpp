// Words, drawings and pictures' encodings of one model advance in the same forwards, whichever role
// asked, and come out as they do alone.
#include "engine/tasks/shared_engine.h"

#include <catch2/catch.hpp>
#include <deque>
#include <set>
#include <thread>

#include "base/file.h"
#include "engine/picture/image_file.h"
#include "fake_activation.h"
#include "roles/denoiser.h"
#include "roles/language_model.h"
#include "roles/paged_kv.h"
#include "roles/vision_encoder.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/models/scenes";

/// The language model and the denoiser over one paged_kv.
struct World {
  GlobalParamSpec param;
  RoleSpec role;
  EngineOptions said;
  std::unique_ptr<GlobalParam> shared;
  std::unique_ptr<SteppedRole> words, drawings, sights;
  std::vector<StepOutcome> ended;
  std::deque<FakeActivation> activations;

  explicit World(std::int64_t pages = 200) {
    param.pages = pages;
    said.format = kernels::WeightFormat::exact;
    role.name.text = "llm";
    shared = PagedKv::make({&param, directory}).value();
    RoleMaking making;
    making.role = &role;
    making.model_directory = directory;
    making.global_params = {shared.get()};
    words = std::get<std::unique_ptr<SteppedRole>>(language_model_plugin().make(making).value());
    drawings = std::get<std::unique_ptr<SteppedRole>>(denoiser_plugin().make(making).value());
    sights = std::get<std::unique_ptr<SteppedRole>>(vision_encoder_plugin().make(making).value());
  }
  PagedKv& kv() { return static_cast<PagedKv&>(*shared); }
  DrawingHost& host() { return *kv().host(directory, said).value(); }

  FakeActivation& ask(const std::string& session, const std::string& text) {
    std::vector<float> rows;
    host().model.text().embed(host().tokenizer.encode(text), rows);
    const auto width = static_cast<std::int64_t>(host().model.text().width());
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
  FakeActivation& look(const std::string& file) {
    const std::string bytes =
        read_whole_file(directory + "/samples/" + file, std::size_t{1} << 24U).value();
    FakeActivation& activation = activations.emplace_back("encode", "");
    activation.give("image", make_image(decode_image(bytes).value()));
    sights->admit(activation);
    return activation;
  }
  /// With the picture in front.
  FakeActivation& ask_about(const FakeActivation& seen, const std::string& session,
                            const std::string& text) {
    FakeActivation& activation = activations.emplace_back("generate", session);
    activation.call_number = activations.size();
    activation.give("features", seen.frames.at(0).second);
    words->admit(activation);
    FakeActivation& asked = ask(session, text);
    asked.call_number = activation.call_number;
    return asked;
  }
  void run() {
    while (words->busy() || drawings->busy() || sights->busy())
      for (SteppedRole* one : {words.get(), drawings.get(), sights.get()})
        if (one->busy()) one->step(ended);
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

/// Where a row stands among others decides in which order a product sums, on some processors.
void check_near(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 1e-3F);
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
    SharedEngine::Turn turn(world.host().shared);
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

TEST_CASE("a picture is looked at and answered while a drawing and three chats advance") {
  World alone;
  FakeActivation& looked = alone.look("table.png");
  alone.run();
  FakeActivation& told = alone.ask_about(looked, "p", questions[0]);
  alone.run();
  REQUIRE(looked.frames.size() == 1);

  World world;
  FakeActivation& begun = world.ask("d", draw_it);
  world.run();
  // What stands in a forward beside a step of the drawing and tokens of all three chats.
  std::size_t all_together = 0, encoded = 0;
  std::set<TaskId> others;
  FakeActivation& drawing = world.draw(begun);
  std::vector<FakeActivation*> chats;
  for (std::size_t i = 0; i < questions.size(); ++i)
    chats.push_back(&world.ask("s" + std::to_string(i), questions[i]));
  {
    SharedEngine::Turn turn(world.host().shared);
    turn.engine().watch = [&](const ForwardRecord& forward) {
      for (const BatchItem& item : forward.items) others.insert(item.task);
    };
  }
  world.words->step(world.ended);
  world.drawings->step(world.ended);
  REQUIRE(others.size() == 4);
  FakeActivation& seen = world.look("table.png");
  {
    SharedEngine::Turn turn(world.host().shared);
    turn.engine().watch = [&](const ForwardRecord& forward) {
      std::size_t tokens = 0;
      for (const BatchItem& item : forward.items) tokens += item.rows == 1 ? 1 : 0;
      for (const BatchItem& item : forward.items)
        encoded += forward.items.size() == 5 && !others.contains(item.task) ? 1 : 0;
      all_together += tokens >= 3 && forward.items.size() == 5 ? 1 : 0;
    };
  }
  while (world.sights->busy()) {
    world.sights->step(world.ended);
    if (world.words->busy()) world.words->step(world.ended);
    if (world.drawings->busy()) world.drawings->step(world.ended);
  }
  CHECK(all_together >= 1);
  CHECK(encoded >= 1);
  FakeActivation& answer = world.ask_about(seen, "p", questions[0]);
  world.run();
  CHECK(latents(drawing).size() == 512);
  for (FakeActivation* chat : chats) CHECK(!said(*chat).empty());
  const auto rows = [](const FakeActivation& one) {
    const auto values = one.frames.at(0).second->tensor.f32();
    return std::vector<float>(values.begin(), values.end());
  };
  CHECK(rows(seen) == rows(looked));
  CHECK(said(answer) == said(told));
  CHECK(!said(answer).empty());
}

TEST_CASE("a picture that comes again is not encoded again, nor one that comes twice at once") {
  World world;
  std::size_t forwards = 0;
  {
    SharedEngine::Turn turn(world.host().shared);
    turn.engine().watch = [&](const ForwardRecord& forward) {
      CHECK(forward.items.size() == 1);
      ++forwards;
    };
  }
  FakeActivation& one = world.look("table.png");
  FakeActivation& two = world.look("table.png");
  world.run();
  const std::size_t once = forwards;
  CHECK(once >= 1);
  FakeActivation& three = world.look("table.png");
  world.run();
  CHECK(forwards == once);
  for (const FakeActivation* seen : {&one, &two, &three}) REQUIRE(seen->frames.size() == 1);
  CHECK(std::ranges::equal(one.frames[0].second->tensor.f32(), two.frames[0].second->tensor.f32()));
  CHECK(
      std::ranges::equal(one.frames[0].second->tensor.f32(), three.frames[0].second->tensor.f32()));
}

TEST_CASE("a cancelled look leaves the engine, and a picture that is none is said to be none") {
  World world;
  FakeActivation& gone = world.look("table.png");
  gone.is_cancelled = true;
  FakeActivation& wrong = world.activations.emplace_back("encode", "");
  wrong.give("image", make_tensor(Tensor::of_f32({1}, {0})));
  world.sights->admit(wrong);
  world.run();
  REQUIRE(world.ended.size() == 2);
  for (const StepOutcome& outcome : world.ended)
    CHECK(outcome.result.error().code ==
          (outcome.activation == &gone ? ErrorCode::cancelled : ErrorCode::invalid_argument));
  SharedEngine::Turn turn(world.host().shared);
  CHECK(turn.engine().empty());
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
  check_near(latents(one), latents(two));
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
  check_near(latents(drawing), latents(alone));
}
