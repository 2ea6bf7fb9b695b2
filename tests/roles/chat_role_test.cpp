// The role chat_model: turns that reuse what was said, sessions together as alone, ends and
// refusals.
#include "roles/chat_role.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "chat_world.h"
#include "engine/picture/image_file.h"
#include "roles/language_model.h"
#include "roles/vision_encoder.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

FakeActivation picture(const std::string& session) {
  FakeActivation made("answer", session);
  made.give("image", make_image(decode_image(read(directory + "/picture.png")).value()));
  return made;
}

/// A session's turns, alone in a fresh world.
std::vector<std::string> alone(const std::vector<std::string>& questions, bool with_picture) {
  ChatWorld world;
  std::vector<std::string> answers;
  FakeActivation image = picture("s");
  if (with_picture) world.chat->admit(image);
  for (const std::string& question : questions) {
    FakeActivation asked = piece(question, "s");
    world.chat->admit(asked);
    world.run();
    answers.push_back(said(asked));
  }
  for (const StepOutcome& outcome : world.ended) CHECK(outcome.result.ok());
  return answers;
}

}  // namespace

TEST_CASE("a picture and a question get transformers' answer; sessions together as alone") {
  const auto expected = nlohmann::json::parse(read(directory + "/expected.json"));
  const auto with_picture = alone({"What is on the table?", "And then?"}, true);
  const auto without = alone({"Hello there"}, false);
  CHECK(with_picture[0] == expected.at("answer").get<std::string>());
  CHECK(with_picture[1] != with_picture[0]);

  ChatWorld world;
  FakeActivation image = picture("a"), first = piece("What is on", "a", false),
                 rest = piece(" the table?", "a"), other = piece("Hello there", "b"),
                 second = piece("And then?", "a");  // waits for the answer before it
  for (FakeActivation* one : {&image, &first, &other, &rest, &second}) world.chat->admit(*one);
  world.run();
  CHECK(world.ended.size() == 5);
  CHECK(said(rest) == with_picture[0]);
  CHECK(said(second) == with_picture[1]);
  CHECK(said(other) == without[0]);
}

TEST_CASE("a picture that two sessions show at once is encoded once, beside another's answer") {
  const std::string want = alone({"What is on the table?"}, true)[0];
  // Few rows a forward, so that one is still encoded when the other is shown.
  ChatWorld world(64, {{{"step_tokens", {}}, {"4", {}}}});
  PlannerOptions few;
  few.budget = 4;
  ChatEngine& engine = *static_cast<ChatSessions&>(*world.sessions)
                            .engine(directory, kernels::WeightFormat::exact, few)
                            .value();
  FakeActivation talking = piece("Hello there", "c", true, 40);
  world.chat->admit(talking);
  world.chat->step(world.ended);
  std::size_t together = 0;
  {
    SharedEngine::Turn turn(engine.shared);
    turn.engine().watch = [&](const ForwardRecord& forward) {
      std::size_t tokens = 0;
      for (const BatchItem& item : forward.items) tokens += item.rows == 1 ? 1 : 0;
      together += tokens >= 1 && forward.items.size() > 1 ? 1 : 0;
    };
  }
  FakeActivation one = picture("a"), other = picture("b"),
                 asks = piece("What is on the table?", "a"),
                 asks_too = piece("What is on the table?", "b"), gone = picture("d");
  for (FakeActivation* each : {&one, &other, &asks, &asks_too, &gone}) world.chat->admit(*each);
  gone.is_cancelled = true;
  world.run();
  CHECK(said(asks) == want);
  CHECK(said(asks_too) == want);
  CHECK(engine.model.encodings() == 1);
  CHECK(together >= 1);
}

TEST_CASE("a later turn reuses keys and values, and answers as if it had not") {
  ChatWorld world;
  FakeActivation image = picture("a"), first = piece("What is on the table?", "a");
  world.chat->admit(image);
  world.chat->admit(first);
  world.run();
  auto& sessions = static_cast<ChatSessions&>(*world.sessions);
  const std::size_t kept = sessions.session("a", "").sequence.tokens();
  CHECK(kept > 40);
  // Forgetting them changes nothing but the work.
  FakeActivation second = piece("And then?", "a");
  world.pool().truncate(sessions.session("a", "").sequence, 0);
  world.chat->admit(second);
  world.run();
  CHECK(said(second) == alone({"What is on the table?", "And then?"}, true)[1]);
}

TEST_CASE("a cancelled answer leaves the chat as it was") {
  ChatWorld world;
  FakeActivation first = piece("Hello there", "a"), wrong = piece("Never mind", "a"),
                 again = piece("And then?", "a");
  wrong.call_number = 2;
  again.call_number = 3;
  world.chat->admit(first);
  world.run();
  world.chat->admit(wrong);
  world.chat->step(world.ended);
  wrong.is_cancelled = true;
  world.run();
  CHECK(world.ended.back().result.error().code == ErrorCode::cancelled);
  world.chat->admit(again);
  world.run();
  CHECK(said(again) == alone({"Hello there", "And then?"}, false)[1]);
  world.sessions->end_session("a");
  CHECK(world.pool().pages_free() == world.pool().pages());
}

TEST_CASE("the question of a cancelled answer asked again has the answer it would have had") {
  for (const int steps : {1, 3, 6}) {
    ChatWorld world;
    FakeActivation wrong = piece("Hello there", "a"), again = piece("Hello there", "a");
    again.call_number = 2;
    world.chat->admit(wrong);
    for (int i = 0; i < steps; ++i) world.chat->step(world.ended);
    wrong.is_cancelled = true;
    world.run();
    world.chat->admit(again);
    world.run();
    CHECK(said(again) == alone({"Hello there"}, false)[0]);
  }
}

TEST_CASE("pieces of a cancelled call are not part of the next one's message") {
  ChatWorld world;
  FakeActivation half = piece("Say nothing but", "a", false), asked = piece("Hello there", "a");
  asked.call_number = 2;
  world.chat->admit(half);
  world.run();
  world.chat->admit(asked);
  world.run();
  CHECK(said(asked) == alone({"Hello there"}, false)[0]);
}

TEST_CASE("a sampled answer is the generator's at that temperature, top-k, top-p and seed") {
  ChatWorld world;
  FakeActivation asked("answer", "a");
  auto* payload = new Payload;
  payload->type = ValueType::text;
  payload->text = "Hello there";
  payload->attributes = {{"generate", 1}, {"max_tokens", 12},   {"temperature_milli", 900},
                         {"top_k", 40},   {"top_p_milli", 950}, {"seed", 5}};
  asked.give("text", PayloadRef(payload));
  world.chat->admit(asked);
  world.run();

  Architecture architecture = std::move(Architecture::load(directory)).value();
  Model model = std::move(Model::load(std::move(architecture), open_weights(directory).value(),
                                      kernels::WeightFormat::exact))
                    .value();
  const ChatModel chat = std::move(ChatModel::open(directory, std::move(model))).value();
  const auto generated = [&](float temperature) {
    const std::vector<ChatMessage> messages{{"user", "Hello there", {}}};
    GenerationOptions options;
    options.tokens_max = 12;
    options.sampling.temperature = temperature;
    options.sampling.top_k = 40;
    options.sampling.top_p = 0.95F;
    options.seed = 5;
    const auto prompt = chat.tokens(messages).value();
    Generation generation = std::move(chat.begin_with(prompt, messages, options)).value();
    generation.id = 1;
    KvPool pool(chat.model().text().kv_shape(8), 64);
    Generator generator(chat.model().text(), pool, &chat.tokenizer(), {});
    generator.add(std::move(generation));
    std::vector<std::uint64_t> advanced;
    while (generator.busy()) generator.step(advanced);
    return generator.find(1)->text;
  };
  CHECK(said(asked) == generated(0.9F));
  CHECK(said(asked) != generated(0));
}

TEST_CASE("a session that ends while it is answered gives its pages back") {
  ChatWorld world;
  FakeActivation asked = piece("Hello there", "a");
  world.chat->admit(asked);
  world.chat->step(world.ended);
  world.sessions->end_session("a");
  world.run();
  CHECK(world.ended.back().result.ok());
  CHECK(world.pool().pages_free() == world.pool().pages());
}

TEST_CASE("a picture of a cancelled turn is not seen in the next one") {
  ChatWorld world;
  FakeActivation image = picture("a"), wrong = piece("What is on the table?", "a"),
                 again = piece("What is on the table?", "a"), other("answer", "a");
  Tensor changed = decode_image(read(directory + "/picture.png")).value();
  for (std::byte& byte : changed.bytes()) byte ^= std::byte{0xff};
  other.give("image", make_image(changed));
  other.call_number = again.call_number = 2;
  world.chat->admit(image);
  world.chat->admit(wrong);
  for (int i = 0; i < 3; ++i) world.chat->step(world.ended);
  wrong.is_cancelled = true;
  world.run();
  world.chat->admit(other);
  world.chat->admit(again);
  world.run();
  ChatWorld apart;
  FakeActivation other_alone("answer", "a"), again_alone = piece("What is on the table?", "a");
  other_alone.give("image", make_image(changed));
  apart.chat->admit(other_alone);
  apart.chat->admit(again_alone);
  apart.run();
  CHECK(said(again) == said(again_alone));
  CHECK(said(again) != alone({"What is on the table?"}, true)[0]);
}

TEST_CASE("sessions that begin alike share pages, and say what they would have said") {
  ChatWorld world, apart(64, {{{"share_prefixes", {}}, {"no", {}}}});
  const auto want = alone({"What is on the table?", "And then?"}, true);
  for (ChatWorld* one : {&world, &apart})
    for (const char* session : {"a", "b", "c"}) {
      FakeActivation image = picture(session), first = piece("What is on the table?", session),
                     second = piece("And then?", session);
      for (FakeActivation* activation : {&image, &first, &second}) one->chat->admit(*activation);
      one->run();
      CHECK(said(first) == want[0]);
      CHECK(said(second) == want[1]);
    }
  // They differ in nothing: the second and the third hold only what is being filled.
  CHECK(world.pool().pages_free() > apart.pool().pages_free() + 8);
  for (ChatWorld* one : {&world, &apart})
    for (const char* session : {"a", "b", "c"}) one->sessions->end_session(session);
  CHECK(world.pool().pages_cached() > 0);
  CHECK(apart.pool().pages_cached() == 0);
}

TEST_CASE("sessions that do not answer give their pages up where others want them") {
  ChatWorld world(12);  // 96 tokens: one conversation at a time
  std::vector<std::string> first;
  for (int i = 0; i < 6; ++i) {
    FakeActivation asked = piece("Hello there", "s" + std::to_string(i));
    world.chat->admit(asked);
    world.run();
    first.push_back(said(asked));
  }
  for (const StepOutcome& outcome : world.ended) CHECK(outcome.result.ok());
  CHECK(first == std::vector<std::string>(6, alone({"Hello there"}, false)[0]));
  // What was said is not forgotten with the pages.
  FakeActivation again = piece("And then?", "s0");
  again.call_number = 2;
  world.chat->admit(again);
  world.run();
  CHECK(said(again).substr(0, 4) == alone({"Hello there", "And then?"}, false)[1].substr(0, 4));
}

TEST_CASE("sessions that ask again at once, each with pages that the other wants, both answer") {
  for (std::int64_t pages = 10; pages <= 24; ++pages) {
    INFO(pages << " pages");
    ChatWorld world(pages);
    for (const char* session : {"a", "b"}) {
      FakeActivation first = piece("Hello there", session, true, 4);
      world.chat->admit(first);
      world.run();
    }
    FakeActivation a = piece("And then?", "a"), b = piece("And then?", "b");
    for (FakeActivation* one : {&a, &b}) {
      one->call_number = 2;
      world.chat->admit(*one);
    }
    world.run();
    for (const StepOutcome& outcome : world.ended) {
      INFO((outcome.result.ok() ? "" : outcome.result.error().message));
      CHECK(outcome.result.ok());
    }
    CHECK(said(a) == said(b));
    CHECK_FALSE(said(a).empty());
  }
}

TEST_CASE("an answer that has begun keeps its pages, whoever comes") {
  for (std::int64_t pages = 10; pages <= 24; ++pages) {
    INFO(pages << " pages");
    ChatWorld world(pages);
    FakeActivation before = piece("Hello there", "a");
    world.chat->admit(before);
    world.run();
    world.sessions->end_session("a");  // its pages stay, for nobody
    world.ended.clear();
    FakeActivation running = piece("What is on the table?", "b", true, 48);
    world.chat->admit(running);
    world.chat->step(world.ended);
    world.chat->step(world.ended);
    // Begins as the first did, so its pages are there, and were promised to who runs.
    FakeActivation other = piece("Hello there", "c");
    world.chat->admit(other);
    world.run();
    for (const StepOutcome& outcome : world.ended) CHECK(outcome.result.ok());
    CHECK(said(other) == said(before));
  }
}

TEST_CASE("an answer that fills all pages is cut off there, and says so") {
  ChatWorld world(6);
  FakeActivation asked = piece("Hello there", "a", true, 200);
  world.chat->admit(asked);
  world.run();
  CHECK(world.ended.at(0).result.ok());
  CHECK(asked.frames.back().second->attribute("cut_off").value_or(0) == 2);
  ChatWorld roomy;
  FakeActivation limited = piece("Hello there", "a", true, 3);
  roomy.chat->admit(limited);
  roomy.run();
  CHECK(limited.frames.back().second->attribute("cut_off").value_or(0) == 1);
}

TEST_CASE("an answer waits for pages of a session that is idle, whichever role runs the forward") {
  std::size_t waited = 0;
  for (const std::int64_t tokens : {10, 14, 18, 22, 26}) {
    ChatWorld world(8);
    const auto sights = role_over(*world.sessions, world.role, vision_encoder_plugin());
    ChatEngine& engine = *static_cast<ChatSessions&>(*world.sessions)
                              .engine(directory, kernels::WeightFormat::exact, {})
                              .value();
    FakeActivation first = piece("Hello there", "a", true, tokens);
    FakeActivation second = piece("What is on the table?", "b", true, tokens);
    world.chat->admit(first);
    world.chat->admit(second);
    while (world.chat->busy()) {
      world.chat->step(world.ended);
      for (int i = 0; i < 2; ++i) sights->step(world.ended);
      SharedEngine::Turn mine(engine.shared);
      mine.was_used();
      waited += mine.engine().planner().waiting();
    }
    REQUIRE(world.ended.size() == 2);
    for (const StepOutcome& outcome : world.ended) REQUIRE(outcome.result.ok());
    INFO(tokens);
    for (const FakeActivation* asked : {&first, &second})
      CHECK(asked->frames.back().second->attribute("cut_off").value_or(0) != 2);
  }
  CHECK(waited > 0);
}

TEST_CASE("two roles over one paged_kv have conversations of their own") {
  ChatWorld world;
  RoleSpec role = world.role;
  role.name.text = "other";
  RoleMaking making;
  making.role = &role;
  making.model_directory = directory;
  making.global_params = {world.sessions.get()};
  auto other = std::get<std::unique_ptr<SteppedRole>>(chat_model_plugin().make(making).value());
  FakeActivation one = piece("Hello there", "a"), two = piece("Hello there", "a");
  world.chat->admit(one);
  other->admit(two);
  while (world.chat->busy() || other->busy()) {
    if (world.chat->busy()) world.chat->step(world.ended);
    if (other->busy()) other->step(world.ended);
  }
  CHECK(said(one) == alone({"Hello there"}, false)[0]);
  CHECK(said(two) == said(one));
  role.options = {{{"precision", {}}, {"int8", {}}}};
  CHECK(chat_model_plugin().make(making).error().message.find("another precision") !=
        std::string::npos);
}

TEST_CASE("what does not fit fails alone") {
  ChatWorld world(5);  // 40 tokens
  FakeActivation image = picture("a"), large = piece("What is on the table?", "a"),
                 small = piece("Hi", "b", true, 2);
  for (FakeActivation* one : {&image, &large, &small}) world.chat->admit(*one);
  world.run();
  int failed = 0;
  for (const StepOutcome& outcome : world.ended)
    if (!outcome.result.ok()) {
      ++failed;
      CHECK(outcome.activation == &large);
      CHECK(outcome.result.error().code == ErrorCode::exhausted);
    }
  CHECK(failed == 1);
}

TEST_CASE("pages that do not fit the machine are refused, not tried") {
  GlobalParamSpec param;
  param.page_tokens = 4096;
  param.pages = std::int64_t{1} << 40;
  const auto made = ChatSessions::make({&param, directory});
  REQUIRE(!made.ok());
  CHECK(made.error().code == ErrorCode::exhausted);
  CHECK(made.error().message.find("the machine has") != std::string::npos);
}

TEST_CASE("a chat_kv that does not say how many pages holds 16,384 tokens") {
  GlobalParamSpec param;
  for (const std::int64_t page_tokens : {16, 100, 4096}) {
    param.page_tokens = page_tokens;
    auto made = ChatSessions::make({&param, directory});
    REQUIRE(made.ok());
    KvPages& pool = dynamic_cast<ChatSessions&>(**made).pages();
    const auto tokens = pool.pages_free() * static_cast<std::size_t>(page_tokens);
    CHECK(tokens >= 16'384);
    CHECK(tokens <= 16'384 + static_cast<std::size_t>(page_tokens));
  }
}

TEST_CASE("a role that cannot be made says why") {
  ChatWorld world;
  RoleMaking making;
  making.role = &world.role;
  making.model_directory = directory;
  CHECK(chat_model_plugin().make(making).error().message.find("paged_kv") != std::string::npos);
  making.global_params = {world.sessions.get()};
  world.role.options = {{{"precision", {}}, {"fp4", {}}}};
  CHECK(chat_model_plugin().make(making).error().message.find("fp4") != std::string::npos);
  world.role.options = {{{"share_prefixes", {}}, {"maybe", {}}}};
  CHECK(chat_model_plugin().make(making).error().message.find("maybe") != std::string::npos);
  world.role.options = {{{"presicion", {}}, {"bf16", {}}}};
  CHECK(chat_model_plugin().make(making).error().message.find("presicion") != std::string::npos);
  world.role.options = {};
  making.model_directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/conversation_smolvlm";
  CHECK(chat_model_plugin().make(making).error().message.find("is made for") != std::string::npos);
  making.model_directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/llama";
  const auto other = ChatSessions::make({&world.param, making.model_directory}).value();
  making.global_params = {other.get()};
  CHECK(chat_model_plugin().make(making).error().message.find("tokenizer") != std::string::npos);
}

namespace {

/// Two roles over one paged_kv: one reads prompts, the other goes on with what they begin.
struct Pair : ChatWorld {
  std::unique_ptr<SteppedRole> reader, writer;
  Pair() : reader(part("reader")), writer(part("writer")) {}
  std::unique_ptr<SteppedRole> part(const std::string& name) {
    role.name.text = name;
    RoleMaking making;
    making.role = &role;
    making.model_directory = directory;
    making.global_params = {sessions.get()};
    return std::get<std::unique_ptr<SteppedRole>>(language_model_plugin().make(making).value());
  }
  std::string end_of(SteppedRole& by, FakeActivation& activation) {
    ended.clear();
    by.admit(activation);
    for (int i = 0; i < 500 && by.busy(); ++i) by.step(ended);
    for (const StepOutcome& outcome : ended)
      if (outcome.activation == &activation)
        return outcome.result.ok() ? "" : outcome.result.error().message;
    return "it has not ended";
  }
  FakeActivation read_message(const std::string& text, std::uint64_t call) {
    FakeActivation made("prefill", "a");
    auto* payload = new Payload;
    payload->type = ValueType::text;
    payload->text = text;
    payload->attributes = {{"generate", 1}, {"max_tokens", 12}};
    made.give("text", PayloadRef(payload));
    made.call_number = call;
    CHECK(end_of(*reader, made).empty());
    return made;
  }
  FakeActivation going_on(const FakeActivation& prefix, const std::string& session = "a") {
    FakeActivation made("decode", session);
    made.give("prefix", prefix.frames.at(0).second);
    return made;
  }
};

}  // namespace

TEST_CASE("an answer that one role begins another goes on with, once, in its own session") {
  Pair pair;
  const std::string want = alone({"Hello there"}, false)[0];
  const FakeActivation read_first = pair.read_message("Hello there", 1);
  FakeActivation thief = pair.going_on(read_first, "b");
  CHECK(pair.end_of(*pair.writer, thief) ==
        "no answer of this session waits under the prefix: it was begun already, the session's "
        "next call took it away, or the prefix was read into another paged_kv");
  FakeActivation wrote = pair.going_on(read_first);
  CHECK(pair.end_of(*pair.writer, wrote).empty());
  CHECK(said(wrote) == want);
  FakeActivation again = pair.going_on(read_first);
  CHECK_FALSE(pair.end_of(*pair.writer, again).empty());
}

TEST_CASE("a message that was read and not answered is not part of the next one") {
  Pair pair;
  const std::string want = alone({"Hello there"}, false)[0];
  const FakeActivation dropped = pair.read_message("Never mind", 1);
  const FakeActivation read_next = pair.read_message("Hello there", 2);
  FakeActivation late = pair.going_on(dropped);
  CHECK_FALSE(pair.end_of(*pair.writer, late).empty());
  FakeActivation wrote = pair.going_on(read_next);
  CHECK(pair.end_of(*pair.writer, wrote).empty());
  CHECK(said(wrote) == want);
  // And its pages go with the session.
  pair.read_message("Hello again", 3);
  pair.sessions->end_session("a");
  CHECK(pair.pool().pages_free() == pair.pool().pages());
}

TEST_CASE("of a cancelled call no pages are kept for an answer that nobody goes on with") {
  Pair pair;
  const std::string want = alone({"Hello there"}, false)[0];
  const FakeActivation read_first = pair.read_message("Never mind", 1);
  CHECK(pair.pool().pages_free() < pair.pool().pages());
  FakeActivation stopped = pair.going_on(read_first);
  stopped.is_cancelled = true;
  CHECK_FALSE(pair.end_of(*pair.writer, stopped).empty());
  CHECK(pair.pool().pages_free() == pair.pool().pages());
  // And the session goes on as if the message had not been said.
  const FakeActivation read_next = pair.read_message("Hello there", 2);
  FakeActivation wrote = pair.going_on(read_next);
  CHECK(pair.end_of(*pair.writer, wrote).empty());
  CHECK(said(wrote) == want);
}

TEST_CASE("features that are not a picture of the model's are refused") {
  Pair pair;
  std::uint64_t calls = 0;
  const auto refused = [&](std::vector<std::int64_t> shape,
                           std::vector<std::pair<std::string, std::int64_t>> attributes) {
    FakeActivation made("generate", "f");
    made.call_number = ++calls;
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    made.give("features",
              make_tensor(Tensor::of_f32(shape, std::vector<float>(count)), std::move(attributes)));
    return pair.end_of(*pair.reader, made);
  };
  const std::int64_t width = 64;
  using Attributes = std::vector<std::pair<std::string, std::int64_t>>;
  const Attributes grid{{"grid_t", 1}, {"grid_h", 4}, {"grid_w", 8}};
  CHECK(refused({8, width}, grid).empty());
  CHECK(refused({8, width - 1}, grid).find("this model reads f32[rows, ") != std::string::npos);
  CHECK(refused({9, width}, grid).find("has 8 rows for this model") != std::string::npos);
  CHECK(refused({8, width}, {}).find("without a grid") != std::string::npos);
  CHECK(refused({8, width}, {{"grid_t", 1}, {"grid_h", 3}, {"grid_w", 8}}).find("without a grid") !=
        std::string::npos);
  CHECK(
      refused({8, width}, {{"grid_t", -1}, {"grid_h", 4}, {"grid_w", 8}}).find("without a grid") !=
      std::string::npos);
  FakeActivation hidden("generate", "f");
  hidden.call_number = ++calls;
  hidden.give("hidden", make_tensor(Tensor::of_f32({1, width}, std::vector<float>(64))));
  CHECK(pair.end_of(*pair.reader, hidden).find("`hidden` is for models that draw") !=
        std::string::npos);
}
