// A message that goes behind an earlier turn of its session (`step`): what stood there is as if it
// had never been said, and is back where that message comes to nothing.
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat_world.h"
#include "roles/parse_request.h"
#include "runtime/node/history_store.h"
#include "scenes_world.h"

using namespace sluice;

namespace going_back {

namespace {

/// A session "a" of one chat, message by message.
struct Chat {
  ChatWorld world;
  std::deque<FakeActivation> calls;

  explicit Chat(std::int64_t pages = 64) : world(pages) {}
  FakeActivation& ask(const std::string& text, std::optional<std::int64_t> step = {},
                      const std::string& interface = "answer") {
    FakeActivation& call = calls.emplace_back(interface, "a");
    call.call_number = calls.size();
    auto* const message = new Payload;
    message->type = ValueType::text;
    message->text = text;
    message->attributes = {{"max_tokens", 12}};
    if (step) message->attributes.emplace_back("step", *step);
    call.give("text", PayloadRef(message));
    world.chat->admit(call);
    return call;
  }
  std::string say(const std::string& text, std::optional<std::int64_t> step = {}) {
    const FakeActivation& call = ask(text, step);
    world.run();
    CHECK(world.ended.back().result.ok());
    return said(call);
  }
  ChatSession& session() { return static_cast<ChatSessions&>(*world.sessions).session("a", ""); }
};

std::string last_of(const std::vector<std::string>& messages) {
  Chat chat;
  std::string answer;
  for (const std::string& message : messages) answer = chat.say(message);
  return answer;
}

const std::string one = "What is on the table?", two = "And then?", three = "Who says so?";

}  // namespace

TEST_CASE("a message behind an earlier turn is answered as if no other had been said there") {
  Chat chat;
  chat.say(one);
  chat.say(two);
  CHECK(chat.say(three, 1) == last_of({one, three}));
  CHECK(chat.session().messages.size() == 4);
  CHECK(chat.say(two) == last_of({one, three, two}));
  CHECK(chat.say(two, 0) == last_of({two}));
  CHECK(chat.say(three, -1) == last_of({two, three}));
  CHECK(chat.say(one, 2) == last_of({two, three, one}));
}

TEST_CASE("what was said is back where the message in its place comes to nothing") {
  Chat chat;
  chat.say(one);
  chat.say(two);
  SECTION("there is no such turn") {
    FakeActivation& wrong = chat.ask(three, 3);
    chat.world.run();
    REQUIRE(chat.world.ended.back().activation == &wrong);
    CHECK(chat.world.ended.back().result.error().code == ErrorCode::invalid_argument);
    CHECK(chat.world.ended.back().result.error().message.starts_with(
        "step is 3, and the session has had 2 turns: "));
  }
  SECTION("it is cancelled, before its answer and amid it") {
    const int steps = GENERATE(0, 1, 4);
    FakeActivation& wrong = chat.ask(three, 1);
    for (int i = 0; i < steps; ++i) chat.world.chat->step(chat.world.ended);
    wrong.is_cancelled = true;
    chat.world.run();
    CHECK(chat.world.ended.back().result.error().code == ErrorCode::cancelled);
  }
  SECTION("it is longer than the model reads") {
    std::string words;
    for (int i = 0; i < 5000; ++i) words += "word ";
    chat.ask(words, 1);
    chat.world.run();
    CHECK_FALSE(chat.world.ended.back().result.ok());
  }
  CHECK(chat.session().messages.size() == 4);
  CHECK(chat.say(three) == last_of({one, two, three}));
}

TEST_CASE("a session's home hears what goes in place of what it kept") {
  Chat chat;
  auto& keeper = static_cast<ChatSessions&>(*chat.world.sessions);
  HistoryStore store;
  const auto settle = [&store](SessionKeeper& of, std::uint32_t machine) {
    const std::optional<HistoryMark> has = of.ask_history("a", "", 1);
    REQUIRE(has.has_value());
    CHECK(of.settle_history("a", "", 1, store.ask({0, 0}, {machine, 1}, *has), true).ok());
  };
  settle(keeper, 1);
  chat.say(one);
  chat.say(two);
  chat.say(three, 1);
  std::uint64_t call = 0;
  for (ToldHistory& told : keeper.take_history("a"))
    store.add({0, 0}, {1, 1}, ++call, std::move(told));
  CHECK(store.take_dropped().empty());
  Chat elsewhere;
  settle(static_cast<ChatSessions&>(*elsewhere.world.sessions), 2);
  CHECK(elsewhere.say(two) == last_of({one, three, two}));
}

TEST_CASE("a session's home does not keep what was read in place of others and never answered") {
  Chat chat;
  auto& keeper = static_cast<ChatSessions&>(*chat.world.sessions);
  HistoryStore store;
  std::uint64_t call = 0;
  const auto settle = [&store](SessionKeeper& of, std::uint32_t machine) {
    const std::optional<HistoryMark> has = of.ask_history("a", "", 1);
    REQUIRE(has.has_value());
    CHECK(of.settle_history("a", "", 1, store.ask({0, 0}, {machine, 1}, *has), true).ok());
  };
  const auto hear = [&] {
    ++call;
    for (ToldHistory& told : keeper.take_history("a"))
      store.add({0, 0}, {1, 1}, call, std::move(told));
  };
  settle(keeper, 1);
  chat.say(one);
  chat.say(two);
  hear();
  chat.ask("What else?", 1, "prefill");
  chat.world.run();
  hear();
  chat.say(three);  // nobody has gone on with that
  hear();
  CHECK(chat.session().messages.size() == 6);
  Chat elsewhere;
  settle(static_cast<ChatSessions&>(*elsewhere.world.sessions), 2);
  CHECK(elsewhere.say(two) == last_of({one, two, three, two}));
}

namespace {

/// A whole turn of a model that draws.
FakeActivation& ask(ScenesWorld& world, std::uint64_t call, const std::string& text,
                    std::optional<std::int64_t> step = {}) {
  return world.say(text, call, true, "s", step);
}

const std::string color = "what color is the circle", many = "how many shapes are there",
                  draw = "draw a red circle";

}  // namespace

TEST_CASE("a model that draws goes back too, with its pages and the pictures between") {
  const auto talk = [](const std::vector<std::string>& messages) {
    ScenesWorld world;
    std::string words;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      FakeActivation& call = ask(world, i + 1, messages[i]);
      world.run();
      words = frames_in_words(call);
    }
    return std::pair(words, world.sequence().tokens());
  };
  ScenesWorld world;
  ask(world, 1, color);
  world.run();
  ask(world, 2, draw);
  world.run();
  const std::size_t before = world.sequence().tokens();
  SECTION("answered") {
    FakeActivation& instead = ask(world, 3, many, 1);
    world.run();
    CHECK(world.well(instead));
    CHECK(std::pair(frames_in_words(instead), world.sequence().tokens()) == talk({color, many}));
    FakeActivation& first = ask(world, 4, draw, 0);
    world.run();
    CHECK(std::pair(frames_in_words(first), world.sequence().tokens()) == talk({draw}));
  }
  SECTION("cancelled, or behind a turn that it has not had: as it was") {
    const bool is_cancelled = GENERATE(true, false);
    FakeActivation& wrong = ask(world, 3, many, is_cancelled ? 1 : 5);
    if (is_cancelled) world.model->step(world.ended);
    wrong.is_cancelled = is_cancelled;
    world.run();
    CHECK_FALSE(world.well(wrong));
    CHECK(world.sequence().tokens() == before);
    FakeActivation& next = ask(world, 4, many);
    world.run();
    CHECK(frames_in_words(next) == talk({color, draw, many}).first);
  }
  world.shared->end_session("s");
  CHECK(world.kv().pool().pages_free() == world.kv().pool().pages());
}

TEST_CASE("a drawing is not of a turn in another's place, as long as that may be") {
  ScenesWorld world;
  FakeActivation& red = ask(world, 1, "draw a red circle");
  world.run();
  REQUIRE(red.frames.back().first == "draw_prompt");
  const std::size_t length = world.sequence().tokens();
  FakeActivation& blue = ask(world, 2, "draw a blue circle", 0);
  world.run();
  REQUIRE(blue.frames.back().first == "draw_prompt");
  REQUIRE(world.sequence().tokens() == length);
  const auto draw_from = [&](const FakeActivation& asked) {
    FakeActivation drawing("generate", "s");
    drawing.give("prompt", asked.frames.back().second);
    world.denoiser->admit(drawing);
    world.ended.clear();
    while (world.denoiser->busy()) world.denoiser->step(world.ended);
    return world.ended.at(0).result;
  };
  CHECK(draw_from(blue).ok());
  CHECK(draw_from(red).error().code == ErrorCode::stale);
}

TEST_CASE("a turn with latents of whatever kind is answered and kept as any other") {
  ScenesWorld world;
  FakeActivation& odd = ask(world, 1, color);
  odd.give("latents", make_tensor(Tensor::zeros(Dtype::u8, {4}).value()));
  world.run();
  CHECK(world.well(odd));
  ask(world, 2, draw);
  world.run();
  FakeActivation& instead = ask(world, 3, many, 1);
  world.run();
  CHECK(world.well(instead));
  const Tensor& back = world.kv().conversation("s").latents;
  CHECK((back.dtype() == Dtype::u8 && back.bytes_size() == 4));
}

TEST_CASE("a request's step is known before its first piece is read") {
  const auto parse = [](const std::string& request) {
    auto activation = std::make_unique<FakeActivation>("parse", "s");
    activation->give("request", make_json(request));
    const Plugin plugin = parse_request_plugin();
    Result<RoleInstance> role = plugin.make({});
    CHECK(std::get<std::unique_ptr<Role>>(*role)->run(*activation).ok());
    return activation;
  };
  const auto alone = parse(R"({"content":[{"type":"text","text":"so"}],"options":{"step":2}})");
  REQUIRE(alone->frames.size() == 1);
  CHECK(alone->frames[0].second->attribute("step") == 2);
  const auto both = parse(R"({"content":[{"type":"text","text":"so"},{"type":"text","text":"it"}],)"
                          R"("options":{"step":-1}})");
  REQUIRE(both->frames.size() == 3);
  CHECK(both->frames[0].second->text.empty());
  CHECK(both->frames[0].second->attribute("generate") == 0);
  CHECK(both->frames[0].second->attribute("step") == -1);
  CHECK(parse(R"({"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]})")
            ->frames.size() == 2);
}

}  // namespace going_back
