// The roles of models/scenes by themselves: turns that fail or are cancelled, drawings that come
// too late, values that do not fit.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <deque>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "engine/picture/image_file.h"
#include "engine/tasks/chat_model.h"
#include "engine/tasks/generator.h"
#include "scenes_world.h"

using namespace sluice;
using World = ScenesWorld;

namespace {

const std::string directory = World::directory();
const std::string draw_it = "draw a red circle";
const std::string ask_it = "what color is the circle";

/// The answer of a session that has been asked nothing else.
std::string fresh(const std::string& question) {
  World world;
  FakeActivation& asked = world.say(question, 1);
  world.run();
  REQUIRE(world.well(asked));
  return frames_in_words(asked);
}

}  // namespace

TEST_CASE("words that the model does not know are a warning, with where to find those it knows") {
  World world;
  FakeActivation known("embed"), unknown("embed");
  known.give("text", make_text("What color is the circle?"));
  unknown.give("text", make_text("is the crimson SPHERE crimson or \x1b[31m?"));
  for (FakeActivation* activation : {&known, &unknown}) world.model->admit(*activation);
  world.run();
  CHECK(known.warnings.empty());
  REQUIRE(unknown.warnings.size() == 1);
  CAPTURE(unknown.warnings[0]);
  CHECK(unknown.warnings[0].starts_with(
      "the model does not know the words 'crimson', 'SPHERE', 'or', '?', '31m'; "));
  CHECK(unknown.warnings[0].ends_with("models/scenes/README.md"));
}

TEST_CASE("a cancelled turn leaves no trace: the same question then has the fresh answer") {
  for (const int steps : {0, 1}) {  // before it began, and after its first token
    World world;
    FakeActivation& wrong = world.say("how many shapes are there", 1);
    for (int i = 0; i < steps; ++i) world.model->step(world.ended);
    wrong.is_cancelled = true;
    world.run();
    CHECK(!world.well(wrong));
    CHECK(world.sequence().tokens() == 0);
    FakeActivation& asked = world.say(ask_it, 2);
    world.run();
    CHECK(frames_in_words(asked) == fresh(ask_it));
  }
}

TEST_CASE("a turn cancelled behind a whole one leaves what stood before it, the picture too") {
  const Tensor first_picture = Tensor::zeros(Dtype::f32, {16, 32}).value();
  Tensor second_picture = Tensor::zeros(Dtype::f32, {16, 32}).value();
  second_picture.f32()[0] = 1;
  // What a session comes to: an answer, then perhaps half a turn that shows another picture and is
  // cancelled while its second piece is read, then a question.
  const auto talk = [&](World& world, bool half, int steps) {
    FakeActivation& shown = world.say("draw a blue square and", 1, false);
    shown.give("latents", make_tensor(Tensor(first_picture)));
    FakeActivation& answered = world.say(ask_it, 1);
    world.run();
    REQUIRE(world.well(answered));
    CHECK(world.kv().conversation("s").unwritten.size() == 1);  // the end of the answer
    if (half) {
      FakeActivation& piece = world.say("how many shapes", 2, false);
      piece.give("latents", make_tensor(Tensor(second_picture)));
      world.run();
      CHECK(world.well(piece));
      CHECK(world.kv().conversation("s").latents.f32()[0] == 1);
      FakeActivation& cancelled = world.say("are there", 2);
      for (int i = 0; i < steps; ++i) world.model->step(world.ended);
      cancelled.is_cancelled = true;
      world.run();
      CHECK(!world.well(cancelled));
    }
    FakeActivation& asked = world.say("how many shapes are there", 3);
    world.run();
    CHECK(world.well(asked));
    return frames_in_words(asked);
  };
  World plain;
  const std::string want = talk(plain, false, 0);
  for (const int steps : {0, 1}) {
    CAPTURE(steps);
    World world;
    CHECK(talk(world, true, steps) == want);
    CHECK(world.sequence().tokens() == plain.sequence().tokens());
    CHECK(world.kv().conversation("s").latents.f32()[0] == 0);
  }
}

TEST_CASE("the words of an answer are parted by one space, and none stands before the first") {
  const std::string answer = fresh(ask_it);
  CHECK(answer.starts_with("token:the token: circle "));
}

TEST_CASE("half a turn, whose call was cancelled between its pieces, is not part of the next") {
  World world;
  FakeActivation& half = world.say("draw a blue square and", 1, false);
  world.run();
  CHECK(world.well(half));
  CHECK(world.sequence().tokens() > 0);
  FakeActivation& asked = world.say(ask_it, 2);
  world.run();
  CHECK(frames_in_words(asked) == fresh(ask_it));
  // Pieces of one call belong together.
  World whole;
  whole.say("what color", 1, false);
  FakeActivation& rest = whole.say("is the circle", 1);
  whole.run();
  CHECK(frames_in_words(rest) == fresh(ask_it));
}

TEST_CASE("a turn begins when it is its session's turn, whenever it was admitted") {
  World one_by_one;
  FakeActivation& first = one_by_one.say(ask_it, 1);
  one_by_one.run();
  FakeActivation& second = one_by_one.say("how many shapes are there", 2);
  one_by_one.run();
  World together;
  FakeActivation& a = together.say(ask_it, 1);
  FakeActivation& b = together.say("how many shapes are there", 2);
  together.run();
  CHECK(frames_in_words(a) == frames_in_words(first));
  CHECK(frames_in_words(b) == frames_in_words(second));
  CHECK(together.sequence().tokens() == one_by_one.sequence().tokens());
  // One that is cancelled while it waits takes nothing from the one before it.
  World waiting;
  FakeActivation& c = waiting.say(ask_it, 1);
  waiting.model->step(waiting.ended);
  FakeActivation& d = waiting.say("how many shapes are there", 2);
  waiting.model->step(waiting.ended);
  d.is_cancelled = true;
  waiting.run();
  CHECK(frames_in_words(c) == frames_in_words(first));
  CHECK(!waiting.well(d));
  FakeActivation& e = waiting.say("how many shapes are there", 3);
  waiting.run();
  CHECK(frames_in_words(e) == frames_in_words(second));
}

TEST_CASE("a piece that fails fails its turn, and the rest of it is refused") {
  World world;
  FakeActivation& wrong = world.activations.emplace_back("generate", "s");
  wrong.give("hidden", make_tensor(std::move(Tensor::zeros(Dtype::f32, {1, 7})).value()));
  world.model->admit(wrong);
  FakeActivation& rest = world.say("is the circle", 1);
  world.run();
  CHECK(!world.well(wrong));
  CHECK(!world.well(rest));
  for (const StepOutcome& outcome : world.ended)
    CHECK_THAT(outcome.result.error().message,
               Catch::Contains(outcome.activation == &wrong ? "f32 rows of width 256"
                                                            : "an earlier piece of this turn"));
  CHECK(world.sequence().tokens() == 0);
  FakeActivation& asked = world.say(ask_it, 2);
  world.run();
  CHECK(frames_in_words(asked) == fresh(ask_it));
}

TEST_CASE("rows of another width are refused, also where as many numbers would be whole rows") {
  const std::vector<std::int64_t> shapes[] = {{16, 32}, {512}, {2, 1, 128}, {256, 2}};
  for (const std::vector<std::int64_t>& shape : shapes) {
    World world;
    FakeActivation& wrong = world.activations.emplace_back("generate", "s");
    wrong.give("hidden", make_tensor(std::move(Tensor::zeros(Dtype::f32, shape)).value()));
    world.model->admit(wrong);
    world.run();
    REQUIRE(world.ended.size() == 1);
    REQUIRE(!world.ended[0].result.ok());
    CHECK_THAT(world.ended[0].result.error().message, Catch::Contains("f32 rows of width 256"));
  }
}

TEST_CASE("an empty piece in a turn adds nothing to it") {
  World world;
  world.say("what color is", 1, false);
  FakeActivation& empty = world.say("", 1, false);
  FakeActivation& asked = world.say("the circle", 1);
  world.run();
  CHECK(world.well(empty));
  World whole;
  whole.say("what color is", 1, false);
  FakeActivation& same = whole.say("the circle", 1);
  whole.run();
  CHECK(frames_in_words(asked) == frames_in_words(same));
}

TEST_CASE("what does not fit the pool fails alone and gives its pages back") {
  World world(2);  // 32 tokens
  FakeActivation& large = world.say(
      "what color is the circle what color is the circle what color "
      "is the circle what color is the circle what color is the "
      "circle what color is the circle what color is the circle",
      1, true, "a");
  FakeActivation& small = world.say(ask_it, 2, true, "b");
  world.run();
  CHECK(!world.well(large));
  CHECK(frames_in_words(small) == fresh(ask_it));
  world.shared->end_session("b");
  CHECK(world.kv().pool().pages_free() == 2);
}

TEST_CASE("a session that ends while it is answered gives its pages back, and nothing is undone") {
  World world;
  FakeActivation& before = world.say(ask_it, 1);
  world.run();
  CHECK(world.well(before));
  FakeActivation& asked = world.say(ask_it, 2);
  world.model->step(world.ended);
  world.shared->end_session("s");
  asked.is_cancelled = true;
  world.run();
  CHECK(!world.well(asked));
  world.shared->end_session("s");
  CHECK(world.kv().pool().pages_free() == world.kv().pool().pages());
}

TEST_CASE("a drawing begins where its prompt ends, and not when the session has moved on") {
  World world;
  FakeActivation& asked = world.say(draw_it, 1);
  world.run();
  REQUIRE(!asked.frames.empty());
  REQUIRE(asked.frames.back().first == "draw_prompt");
  const PayloadRef prompt = asked.frames.back().second;
  const std::size_t tokens = world.sequence().tokens();
  const std::size_t free = world.kv().pool().pages_free();
  const auto draw = [&](const PayloadRef& from, bool cancelled) {
    FakeActivation drawing("generate", "s");
    drawing.give("prompt", from);
    drawing.is_cancelled = cancelled;
    world.denoiser->admit(drawing);
    std::vector<StepOutcome> ended;
    while (world.denoiser->busy()) world.denoiser->step(ended);
    REQUIRE(ended.size() == 1);
    const Result<void> drawn = ended[0].result;
    CHECK(drawn.ok() == !drawing.frames.empty());
    if (drawn.ok()) {
      CHECK(drawing.frames.at(0).second->tensor.shape() == std::vector<std::int64_t>{16, 32});
    }
    return drawn;
  };
  CHECK(draw(prompt, false).ok());
  CHECK(!draw(prompt, true).ok());
  // A drawing reads the session and leaves it as it was.
  CHECK(world.sequence().tokens() == tokens);
  CHECK(world.kv().pool().pages_free() == free);
  auto* odd = new Payload;
  odd->type = ValueType::tensor;
  odd->attributes = prompt->attributes;
  odd->tensor = std::move(Tensor::zeros(Dtype::f32, {5})).value();
  CHECK_THAT(draw(PayloadRef(odd), false).error().message, Catch::Contains("needs 512 f32 values"));
  world.say(ask_it, 2);
  world.run();
  const Result<void> late = draw(prompt, false);
  REQUIRE(!late.ok());
  CHECK(late.error().code == ErrorCode::stale);
  CHECK_THAT(late.error().message,
             Catch::Contains("the prompt had " + std::to_string(tokens) + ")"));
}

TEST_CASE("the codec takes pictures of any size to latents and back, and refuses a wrong count") {
  World world;
  FakeActivation encode("encode");
  encode.give("image", make_image(std::move(Tensor::zeros(Dtype::u8, {30, 70, 3})).value()));
  REQUIRE(world.codec->run(encode).ok());
  const PayloadRef latents = encode.frames.at(0).second;
  CHECK(latents->tensor.count() == 16 * 32);
  FakeActivation decode("decode");
  decode.give("latents", latents);
  REQUIRE(world.codec->run(decode).ok());
  CHECK(decode.frames.at(0).second->tensor.shape() == std::vector<std::int64_t>{64, 64, 3});
  for (const auto& [shape, dtype] : {std::pair{std::vector<std::int64_t>{511}, Dtype::f32},
                                     std::pair{std::vector<std::int64_t>{513}, Dtype::f32},
                                     std::pair{std::vector<std::int64_t>{16, 32}, Dtype::i32}}) {
    FakeActivation wrong("decode");
    wrong.give("latents", make_tensor(std::move(Tensor::zeros(dtype, shape)).value()));
    const Result<void> refused = world.codec->run(wrong);
    REQUIRE(!refused.ok());
    CHECK_THAT(refused.error().message, Catch::Contains("this model needs 512 f32 values"));
    CHECK(wrong.frames.empty());
  }
}

TEST_CASE("the vision encoder looks at pictures of any size") {
  World world;
  std::vector<float> small, large;
  for (const std::int64_t side : {9, 300}) {
    FakeActivation look("encode");
    Tensor picture = std::move(Tensor::zeros(Dtype::u8, {side, side, 3})).value();
    for (std::uint8_t& byte : picture.u8()) byte = 128;
    look.give("image", make_image(std::move(picture)));
    REQUIRE(world.vision->run(look).ok());
    const Tensor& features = look.frames.at(0).second->tensor;
    CHECK(features.shape() == std::vector<std::int64_t>{16, 256});
    (side == 9 ? small : large).assign(features.f32().begin(), features.f32().end());
  }
  // Grey is grey at any size.
  for (std::size_t i = 0; i < small.size(); ++i) CHECK(small[i] == Approx(large[i]).margin(1e-4));
}

TEST_CASE("what is no picture, or has nothing in it, is refused by those that look") {
  World world;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0, 5, 3}, {5, 0, 3}, {4, 4}, {4, 4, 4}}) {
    CAPTURE(shape);
    for (Role* role : {world.vision.get(), world.codec.get()}) {
      FakeActivation look("encode");
      look.give("image", make_image(std::move(Tensor::zeros(Dtype::u8, shape)).value()));
      const Result<void> refused = role->run(look);
      REQUIRE(!refused.ok());
      CHECK(!refused.error().message.empty());
      CHECK(look.frames.empty());
    }
  }
}

TEST_CASE("each picture stands between its marks in what a conversation holds") {
  World world;
  FakeActivation look("encode");
  look.give("image", make_image(std::move(Tensor::zeros(Dtype::u8, {9, 9, 3})).value()));
  REQUIRE(world.vision->run(look).ok());
  for (std::size_t pictures = 1; pictures <= 3; ++pictures) {
    FakeActivation& shown = world.activations.emplace_back("generate", "s");
    shown.call_number = 1;
    shown.give("features", look.frames.at(0).second);
    world.model->admit(shown);
    world.run();
    REQUIRE(world.well(shown));
    // The conversation's beginning and whose turn it is, once; 16 rows of each and two marks.
    CHECK(world.sequence().tokens() == 2 + pictures * 18);
  }
}

TEST_CASE("a chat over the same checkpoint says what the roles say") {
  const ChatModel chat =
      std::move(ChatModel::open(directory, std::move(Model::open(directory)).value())).value();
  KvPool pool(chat.model().text().kv_shape(16), 64);
  Generator generator(chat.model().text(), pool, &chat.tokenizer(), {});
  const auto answer = [&](std::vector<ChatMessage> messages) {
    GenerationOptions options;
    options.tokens_max = 40;
    Generation generation = std::move(chat.begin(messages, options)).value();
    generator.add(std::move(generation));
    std::vector<std::uint64_t> advanced;
    while (generator.busy()) generator.step(advanced);
    return std::move(generator.remove(0)).value();
  };
  const std::string bytes =
      read_whole_file(directory + "/samples/table.png", std::size_t{1} << 24U).value();
  const Tensor picture = decode_image(bytes).value();

  World world;
  FakeActivation look("encode");
  look.give("image", make_image(Tensor(picture)));
  REQUIRE(world.vision->run(look).ok());
  FakeActivation& shown = world.activations.emplace_back("generate", "s");
  shown.call_number = 1;
  shown.give("features", look.frames.at(0).second);
  world.model->admit(shown);
  FakeActivation& asked = world.say(ask_it, 1);
  world.run();
  std::string told;
  for (const auto& [field, payload] : asked.frames) told += payload->text;
  REQUIRE(!told.empty());

  const PictureInput seen = chat.encode_picture(picture).value();
  const Generation first = answer({{"user", ask_it, {seen}}});
  CHECK(first.text == told);
  CHECK(first.finish == Generation::Finish::end_token);

  // A second turn, whose first the roles have kept.
  FakeActivation& again = world.say("how many shapes are there", 2);
  world.run();
  told.clear();
  for (const auto& [field, payload] : again.frames) told += payload->text;
  CHECK(answer({{"user", ask_it, {seen}},
                {"assistant", first.text, {}},
                {"user", "how many shapes are there", {}}})
            .text == told);

  const Generation drawing = answer({{"user", draw_it, {}}});
  CHECK(drawing.end_token == chat.model().architecture().turns->draw);
}

TEST_CASE("a tokenizer of another vocabulary is said to be one, and nothing ends") {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("sluice_tokens_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  for (const char* name : {"config.json", "model.safetensors"})
    fs::create_symlink(fs::path(directory) / name, folder / name);
  std::string words = read_whole_file(directory + "/tokenizer.json", 1U << 20U).value();
  const std::string circle = "\"circle\": ";
  const std::size_t at = words.find(circle);
  REQUIRE(at != std::string::npos);
  words.insert(at + circle.size(), "2");  // 200 and more, of 128
  std::ofstream(folder / "tokenizer.json") << words;
  {
    GlobalParamSpec param;
    param.pages = 8;
    RoleSpec role;
    role.name.text = "llm";
    RoleMaking making;
    making.role = &role;
    making.model_directory = folder.string();
    const auto shared = PagedKv::make({&param, folder.string()}).value();
    making.global_params = {shared.get()};
    auto made = language_model_plugin().make(making);
    REQUIRE(made.ok());
    const auto model = std::get<std::unique_ptr<SteppedRole>>(std::move(made).value());
    FakeActivation asked("embed", "s");
    auto* payload = new Payload;
    payload->type = ValueType::text;
    payload->text = ask_it;
    asked.give("text", PayloadRef(payload));
    std::vector<StepOutcome> ended;
    model->admit(asked);
    while (model->busy()) model->step(ended);
    REQUIRE(ended.size() == 1);
    REQUIRE_FALSE(ended[0].result.ok());
    CHECK(ended[0].result.error().message.find("vocab_size is 128") != std::string::npos);
    CHECK(asked.frames.empty());
  }
  fs::remove_all(folder);
}
