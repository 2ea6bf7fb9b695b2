// A message whose beginning is computed while its rest is on the way: what is said and what is
// counted is as if it had come whole.
#include "roles/chat_ahead.h"

#include <catch2/catch.hpp>
#include <deque>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "base/random.h"
#include "chat_world.h"
#include "engine/picture/image_file.h"
#include "roles/tenant.h"

using namespace sluice;

namespace reading_ahead {

namespace {

constexpr int pictures = 8;  // of a message: some 80 rows with what the template says

/// Sessions of one chat, piece by piece.
struct Chat {
  ChatWorld world;
  std::deque<FakeActivation> pieces;
  std::size_t rows = 0;  // that forwards have computed, of pictures too

  explicit Chat(std::int64_t pages = 64, std::int64_t step_tokens = 64,
                std::int64_t tenant_pages = 0)
      : world(pages, {{{"step_tokens", {}}, {std::to_string(step_tokens), {}}}}, {}, nullptr,
              directory, {}, tenant_pages) {
    PlannerOptions options;
    options.budget = static_cast<std::uint32_t>(step_tokens);
    ChatEngine& engine = *keeper().engine(directory, kernels::WeightFormat::exact, options).value();
    SharedEngine::Turn turn(engine.shared);
    turn.engine().watch = [this](const ForwardRecord& forward) {
      for (const BatchItem& item : forward.items) rows += item.rows;
    };
  }
  ChatSessions& keeper() { return static_cast<ChatSessions&>(*world.sessions); }
  ChatSession& session(const std::string& name = "a") { return keeper().session(name, ""); }
  /// The n-th of a few pictures.
  FakeActivation& show(int n, const std::string& name = "a", std::uint64_t call = 1,
                       const std::string& tenant = {}) {
    FakeActivation& shown = pieces.emplace_back("answer", name);
    shown.call_number = call;
    Result<Tensor> made = Tensor::zeros(Dtype::u8, {28, 28, 3});
    std::size_t at = 0;
    for (std::byte& byte : made->bytes())
      byte = static_cast<std::byte>(at++ * static_cast<std::size_t>(3 * n + 7) % 251);
    auto* const image = new Payload;
    image->type = ValueType::image;
    image->tensor = std::move(made).value();
    add_tenant(tenant, image->attributes);
    shown.give("image", PayloadRef(image));
    world.chat->admit(shown);
    return shown;
  }
  FakeActivation& ask(const std::string& text, const std::string& name = "a",
                      std::uint64_t call = 1, const std::string& tenant = {}) {
    FakeActivation& asked = pieces.emplace_back("answer", name);
    asked.call_number = call;
    auto* const message = new Payload;
    message->type = ValueType::text;
    message->text = text;
    message->attributes = {{"max_tokens", 12}};
    add_tenant(tenant, message->attributes);
    asked.give("text", PayloadRef(message));
    world.chat->admit(asked);
    return asked;
  }
  /// All pictures of a message, until they are seen and the first rows behind them computed.
  void show_all() {
    for (int n = 0; n < pictures; ++n) show(n);
    while (session().pending.pictures.size() < pictures) step(1);
    // The last one is held, and no other.
    CHECK(world.ended.size() == pictures - 1);
    CHECK(world.chat->busy());
  }
  void cancel_all() {
    for (FakeActivation& one : pieces) one.is_cancelled = true;
  }
  void step(int times) {
    for (int i = 0; i < times && world.chat->busy(); ++i) world.chat->step(world.ended);
  }
  /// Of the tenant's quota, by what is not only cache.
  std::size_t held_by(const std::string& tenant) {
    return world.pool().tenant_room(tenant).value().held;
  }
  PoolReport report() { return keeper().pool_report(std::chrono::milliseconds(250)).value(); }
};

const std::string question = "What is on the table?", next = "And then?";

struct Whole {
  std::string answer, then;  // to the question, and to the next one
  std::size_t rows = 0;      // until the answer's end
};

/// Of a message that comes whole.
Whole whole(std::int64_t step_tokens = 64) {
  Chat chat(64, step_tokens);
  for (int n = 0; n < pictures; ++n) chat.show(n);
  const FakeActivation& asked = chat.ask(question);
  chat.world.run();
  const std::size_t rows = chat.rows;
  const FakeActivation& then = chat.ask(next, "a", 2);
  chat.world.run();
  return {said(asked), said(then), rows};
}

}  // namespace

TEST_CASE("what stands before the pieces that are to come is computed meanwhile, once") {
  Chat at_once;
  for (int n = 0; n < pictures; ++n) at_once.show(n);
  const FakeActivation& wanted = at_once.ask(question);
  at_once.world.run();
  const std::string answer = said(wanted);
  CHECK_FALSE(answer.empty());

  Chat chat;
  for (int n = 0; n < pictures; ++n) {
    chat.show(n);
    chat.world.run();
  }
  CHECK(chat.session().sequence.tokens() >= chat::ReadsAhead::rows_least);
  CHECK(chat.session().messages.empty());
  const FakeActivation& asked = chat.ask(question);
  chat.world.run();
  CHECK(said(asked) == answer);
  CHECK(chat.rows == at_once.rows);
  for (const StepOutcome& outcome : chat.world.ended) CHECK(outcome.result.ok());
  const PoolReport one = chat.report(), other = at_once.report();
  CHECK(one.prompts == 1);
  CHECK(one.computed == other.computed);
  CHECK(one.memory == 0);
}

TEST_CASE("a message that is whole amid that goes on with the rows that there are") {
  const auto [answer, then, rows] = whole(4);
  for (int steps = 1; steps < 24; ++steps) {
    Chat chat(64, 4);
    chat.show_all();
    chat.step(steps);
    const FakeActivation& asked = chat.ask(question);
    chat.world.run();
    CHECK(said(asked) == answer);
    CHECK(chat.rows == rows);
    CHECK(chat.report().memory == 0);
    const FakeActivation& later = chat.ask(next, "a", 2);
    chat.world.run();
    CHECK(said(later) == then);
  }
}

TEST_CASE("what was said before is computed anew with a message's first piece") {
  Chat chat;
  chat.show_all();
  const FakeActivation& asked = chat.ask(question);
  chat.world.run();
  CHECK(said(asked) == whole().answer);
  const std::size_t held = chat.session().sequence.tokens();
  chat.world.pool().release(chat.session().sequence);
  const bool is_cached = GENERATE(true, false);
  if (!is_cached) {  // another session needs all pages
    KvSequence all = chat.world.pool().open(RowsOrigin{}, {});
    std::vector<CopyPage> none;
    CHECK(chat.world.pool().reserve(all, 64 * 8, none).ok());
    chat.world.pool().release(all);
  }
  FakeActivation& first = chat.pieces.emplace_back(piece("And", "a", false));
  first.call_number = 2;
  const std::uint64_t used = chat.world.pool().table().hit_window().blocks;
  chat.world.chat->admit(first);
  chat.world.run();
  if (is_cached) CHECK(chat.world.pool().table().hit_window().blocks == used);
  // What is found needs not be computed before the answer finds it.
  const std::size_t ahead = chat.session().sequence.tokens();
  CHECK((is_cached ? ahead == 0 : ahead >= held));
  const FakeActivation& then = chat.ask(" then?", "a", 2);
  chat.world.run();
  CHECK(said(then) == whole().then);
  CHECK((chat.report().memory > 0) == is_cached);
}

TEST_CASE("whoever finds too few free pages computes nothing ahead, and takes none from others") {
  Chat chat(16);
  const FakeActivation& other = chat.ask(question + question + question, "b");
  chat.world.run();
  const std::size_t kept = chat.session("b").sequence.tokens();
  for (int n = 0; n < pictures; ++n) chat.show(n);
  chat.world.run();
  CHECK(chat.session().pending.pictures.size() == pictures);
  CHECK(chat.session().sequence.tokens() == 0);
  CHECK(chat.session("b").sequence.tokens() == kept);
  CHECK_FALSE(said(other).empty());
  const FakeActivation& asked = chat.ask(question);
  chat.world.run();
  CHECK(said(asked) == whole().answer);
}

TEST_CASE("few rows are left to the answer") {
  Chat chat;
  chat.show(0);
  chat.world.run();
  CHECK(chat.session().pending.pictures.size() == 1);
  CHECK(chat.session().sequence.tokens() == 0);
}

TEST_CASE("a message that another call drops, and a session that ends, leave no pages held") {
  Chat chat(64, 4);
  chat.show_all();
  chat.step(3);
  SECTION("another call") {
    const FakeActivation& asked = chat.ask("Hello there", "a", 2);
    chat.world.run();
    Chat fresh;
    const FakeActivation& same = fresh.ask("Hello there");
    fresh.world.run();
    CHECK(said(asked) == said(same));
    chat.world.sessions->end_session("a");
  }
  SECTION("its call is cancelled") {
    chat.cancel_all();
    chat.world.run();
    CHECK(chat.world.ended.back().result.error().code == ErrorCode::cancelled);
    CHECK(chat.session().sequence.tokens() > 0);
    chat.world.sessions->end_session("a");
  }
  SECTION("its end, amid it and behind it") {
    if (GENERATE(false, true)) chat.world.run();
    chat.world.sessions->end_session("a");
    chat.world.run();
  }
  CHECK(chat.world.pool().pages_free() == chat.world.pool().pages());
}

TEST_CASE("whenever the pieces of several sessions come, with few pages, they are answered alike") {
  const auto [answer, then, rows] = whole();
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SplitMix64 random(seed);
    const auto below = [&](std::uint64_t most) { return static_cast<int>(random.next() % most); };
    // One answer at a time, two, or all of them.
    Chat chat(std::int64_t{16} << below(3), 4 << below(4));
    chat.show_all();  // of a call that is cancelled
    chat.step(below(4));
    chat.cancel_all();
    const std::vector<std::string> names{"b", "c", "d"};
    std::vector<int> shown(names.size(), 0);
    std::vector<const FakeActivation*> asked(names.size()), later(names.size());
    for (std::size_t left = names.size() * (pictures + 2); left > 0;) {
      const std::size_t who = static_cast<std::size_t>(below(names.size()));
      if (shown[who] == pictures + 2) continue;
      --left;
      if (shown[who] < pictures)
        chat.show(shown[who], names[who]);
      else if (shown[who] == pictures)
        asked[who] = &chat.ask(question, names[who]);
      else
        later[who] = &chat.ask(next, names[who], 2);
      ++shown[who];
      chat.step(below(3) == 0 ? below(20) : 0);
    }
    chat.world.run();
    INFO("seed " << seed);
    for (std::size_t who = 0; who < names.size(); ++who) {
      CHECK(said(*asked[who]) == answer);
      CHECK(said(*later[who]) == then);
    }
    for (const char* name : {"a", "b", "c", "d"}) chat.world.sessions->end_session(name);
    CHECK(chat.world.pool().pages_free() == chat.world.pool().pages());
  }
}

TEST_CASE("what is computed ahead counts as its tenant's, also where a picture names none") {
  const std::string by_picture = GENERATE("one", "");
  Chat chat(64, 64, 32);
  for (int n = 0; n < pictures; ++n) {
    chat.show(n, "a", 1, by_picture);
    chat.world.run();
  }
  const ChatSession& session = chat.session();
  CHECK(session.sequence.tokens() >= chat::ReadsAhead::rows_least);
  CHECK(chat.held_by("one") == (by_picture.empty() ? 0 : session.sequence.pages().size()));
  const FakeActivation& asked = chat.ask(question, "a", 1, "one");
  chat.world.run();
  CHECK(chat.world.ended.back().result.ok());
  CHECK(said(asked) == whole().answer);
  // Nobody's rows are not the tenant's.
  CHECK((chat.rows == whole().rows) == !by_picture.empty());
  CHECK(chat.held_by("one") == session.sequence.pages().size());
  Chat small(64, 64, 8);
  for (int n = 0; n < pictures; ++n) {
    small.show(n, "a", 1, by_picture);
    small.world.run();
  }
  small.ask(question, "a", 1, "one");
  small.world.run();
  REQUIRE_FALSE(small.world.ended.back().result.ok());
  CHECK(
      small.world.ended.back().result.error().message.starts_with("the tenant 'one' has no more"));
}

TEST_CASE("another tenant's call is refused amid a message, which goes on as if it had not come") {
  const bool shows = GENERATE(false, true);
  Chat chat(64, 4, 32);
  for (int n = 0; n < pictures; ++n) chat.show(n, "a", 1, "one");
  while (chat.session().pending.pictures.size() < pictures) chat.step(1);
  chat.step(2);
  const std::size_t before = chat.world.ended.size();
  const FakeActivation& other =
      shows ? chat.show(0, "a", 2, "two") : chat.ask("And then?", "a", 2, "two");
  chat.step(1);
  REQUIRE(chat.world.ended.size() == before + 1);
  CHECK(chat.world.ended.back().activation == &other);
  CHECK(chat.world.ended.back().result.error().code == ErrorCode::invalid_argument);
  CHECK(chat.session().pending.pictures.size() == pictures);
  const FakeActivation& rest = chat.ask("And then?", "a", 2, "one");
  chat.step(1);
  CHECK(chat.world.ended.back().activation == &rest);
  CHECK(chat.world.ended.back().result.error().code == ErrorCode::cancelled);
  const FakeActivation& asked = chat.ask(question, "a", 1, "one");
  chat.world.run();
  const Whole undisturbed = whole(4);
  CHECK(said(asked) == undisturbed.answer);
  CHECK(chat.rows == undisturbed.rows);
}

}  // namespace reading_ahead
