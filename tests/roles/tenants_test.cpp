// Tenants of one pool: who finds whose pages, whose a session is, and what a quota does to those
// who have come to it and to nobody else.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "chat_world.h"
#include "engine/picture/picture_cache.h"
#include "roles/handed_prefix.h"
#include "roles/parse_request.h"
#include "roles/saved_message.h"
#include "roles/tenant.h"
#include "runtime/node/history_store.h"
#include "scenes_world.h"
#include "tests/dataplane/invariants.h"

using namespace sluice;

namespace tenants {

namespace {

struct World : ChatWorld {
  std::deque<FakeActivation> calls;

  explicit World(std::int64_t pages = 64, std::int64_t tenant_pages = 0)
      : ChatWorld(pages, {}, {}, nullptr, directory, {}, tenant_pages) {}

  FakeActivation& ask(const std::string& text, const std::string& session,
                      const std::string& tenant, std::int64_t tokens = 4) {
    FakeActivation& call = calls.emplace_back("answer", session);
    call.call_number = calls.size();
    auto* const message = new Payload;
    message->type = ValueType::text;
    message->text = text;
    message->attributes = {{"max_tokens", tokens}};
    add_tenant(tenant, message->attributes);
    call.give("text", PayloadRef(message));
    chat->admit(call);
    return call;
  }
  /// Its words, or why there are none.
  std::string say(const std::string& text, const std::string& session, const std::string& tenant,
                  std::int64_t tokens = 4) {
    const FakeActivation& call = ask(text, session, tenant, tokens);
    run();
    return ended.back().result.ok() ? said(call) : ended.back().result.error().message;
  }
  PoolReport report() { return *sessions->pool_report(std::chrono::milliseconds{0}); }
  PoolTenant tenant(const std::string& name) {
    const PoolReport now = report();
    const auto it = std::ranges::find(now.tenant_list, name, &PoolTenant::name);
    return it == now.tenant_list.end() ? PoolTenant{} : *it;
  }
};

const std::string question = "What is on the table, and what is under it?";

std::string words(int count, const std::string& of = "word") {
  std::string text;
  for (int i = 0; i < count; ++i) text += of + " ";
  return text;
}

}  // namespace

TEST_CASE("K13: the same prompt of two tenants computes twice, of one tenant once") {
  World world;
  Invariants invariants;
  const std::string first = world.say(question, "a", "one");
  const std::uint64_t computed = world.report().computed;
  REQUIRE(computed > 16);
  std::uint64_t sessions = 0;
  for (const char* tenant : {"two", "", "ONE", "one.", "on"}) {
    const PoolReport before = world.report();
    CHECK(world.say(question, "s" + std::to_string(++sessions), tenant) == first);
    const PoolReport after = world.report();
    invariants.must("K13", after.memory == before.memory);
    invariants.must("K13", after.computed == before.computed + computed);
  }
  for (const char* tenant : {"one", "two", ""}) {
    const PoolReport before = world.report();
    CHECK(world.say(question, "s" + std::to_string(++sessions), tenant) == first);
    CHECK(world.report().computed < before.computed + computed / 2);
  }
  CHECK(invariants.all_hold());
}

TEST_CASE("a session is of the tenant of its first call, and refuses others") {
  World world;
  world.say(question, "a", "one");
  const PoolReport before = world.report();
  for (const std::string& other : {std::string("two"), std::string()}) {
    const std::string why = world.say("And then?", "a", other);
    const std::string named = other.empty() ? "no tenant" : "the tenant 'two'";
    CHECK(
        why.starts_with("the session is of the tenant 'one', as its first call was, and this call "
                        "names " +
                        named + ": "));
    CHECK(world.ended.back().result.error().code == ErrorCode::invalid_argument);
  }
  CHECK(world.report().asked == before.asked);
  World alone;
  alone.say(question, "a", "one");
  CHECK(world.say("And then?", "a", "one") == alone.say("And then?", "a", "one"));
  world.say(question, "b", "");
  CHECK(world.say("And then?", "b", "one").starts_with("the session is of no tenant, "));
  world.sessions->end_session("b");
  CHECK_FALSE(world.say(question, "b", "one").starts_with("the session is of"));
}

TEST_CASE("a session that goes on elsewhere is its tenant's there too") {
  World here, there;
  HistoryStore store;
  const auto settle = [&](World& world, std::uint32_t machine) {
    auto& keeper = static_cast<ChatSessions&>(*world.sessions);
    const std::optional<HistoryMark> has = keeper.ask_history("a", "", 1);
    REQUIRE(has.has_value());
    REQUIRE(keeper.settle_history("a", "", 1, store.ask({0, 0}, {machine, 1}, *has), true).ok());
  };
  settle(here, 1);
  here.say(question, "a", "one");
  std::uint64_t call = 0;
  auto& keeper = static_cast<ChatSessions&>(*here.sessions);
  for (ToldHistory& told : keeper.take_history("a"))
    store.add({0, 0}, {1, 1}, ++call, std::move(told));
  settle(there, 2);
  CHECK(there.say("And then?", "a", "two").starts_with("the session is of the tenant 'one'"));
  CHECK(there.say("And then?", "a", "one") == here.say("And then?", "a", "one"));
}

TEST_CASE("a saved message has its tenant, and none that cannot be") {
  ChatWorld world;
  const Model& model = static_cast<ChatSessions&>(*world.sessions)
                           .engine(directory, kernels::WeightFormat::exact, {})
                           .value()
                           ->model.model();
  ChatMessage message{"user", "words", {}, "one"};
  HistoryRecord record = save_message(message);
  Result<ChatMessage> read = restore_message(record, true, model);
  REQUIRE(read.ok());
  CHECK((read->tenant == "one" && read->text == "words"));
  CHECK(save_message(*read) == record);
  message.tenant.clear();
  CHECK(restore_message(save_message(message), true, model)->tenant.empty());
  for (std::size_t size = 0; size < record.size(); ++size)
    CHECK_FALSE(restore_message(std::span(record).first(size), true, model).ok());
  record[3] = std::byte{'/'};
  CHECK_FALSE(restore_message(record, true, model).ok());
}

TEST_CASE("an answer that is handed on is its tenant's") {
  HandedPrefix prefix;
  prefix.prompt = {1, 2, 3};
  prefix.options.tenant = std::string(64, 'x');
  const Result<HandedPrefix> read = read_prefix(*prefix_frame(prefix), 10);
  REQUIRE(read.ok());
  CHECK(read->options.tenant == prefix.options.tenant);
  Generation begun;
  begun.options.tenant = "one";
  const std::vector<std::byte> bytes = encode_begun(begun);
  std::optional<Generation> decoded = decode_begun(bytes, prefix.prompt, 10);
  REQUIRE(decoded.has_value());
  CHECK((decoded->options.tenant == "one" && decoded->origin.tenant == "one"));
  begun.options.tenant = "not a name";
  CHECK_FALSE(decode_begun(encode_begun(begun), prefix.prompt, 10).has_value());
}

TEST_CASE("a tenant's name travels with each piece as numbers") {
  for (const std::string& name : {std::string("a"), std::string("12345678"),
                                  std::string("123456789"), std::string(64, '-')}) {
    auto* const piece = new Payload;
    const PayloadRef held(piece);
    add_tenant(name, piece->attributes);
    CHECK(piece->attributes.size() == (name.size() + 7) / 8);
    CHECK(tenant_of(*piece).value() == name);
  }
  auto* const wrong = new Payload;
  const PayloadRef held(wrong);
  CHECK(tenant_of(*wrong).value().empty());
  wrong->attributes = {{"tenant_0", 0}};
  CHECK_FALSE(tenant_of(*wrong).ok());
  wrong->attributes = {{"tenant_0", '/'}};
  CHECK_FALSE(tenant_of(*wrong).ok());
  CHECK_FALSE(is_tenant_name(""));
  CHECK_FALSE(is_tenant_name(std::string(65, 'a')));
  CHECK_FALSE(is_tenant_name("two words"));
  const auto parse = [](const std::string& tenant) {
    FakeActivation activation("parse", "s");
    activation.give("request",
                    make_json(R"({"content":[{"type":"text","text":"so"},{"type":"text",)"
                              R"("text":"it"}],"options":{"step":1,"tenant":)" +
                              tenant + "}}"));
    const Plugin plugin = parse_request_plugin();
    Result<RoleInstance> role = plugin.make({});
    Result<void> done = std::get<std::unique_ptr<Role>>(*role)->run(activation);
    if (!done.ok()) return done.error().message;
    std::string all;
    for (const auto& [field, piece] : activation.frames) all += tenant_of(*piece).value() + " ";
    return all;
  };
  CHECK(parse(R"("one")") == "one one one ");
  for (const char* none : {"\"\"", "1", "null", "\"a b\"", "[]"})
    CHECK(parse(none).starts_with("the request: option 'tenant' is "));
}

TEST_CASE("a picture that another tenant has shown counts as one that nobody has") {
  const Tensor picture = Tensor::zeros(Dtype::u8, {4, 4, 3}).value();
  CHECK(picture_content(picture, "one") == picture_content(picture, "one"));
  CHECK(picture_content(picture, "one") != picture_content(picture, "two"));
  CHECK(picture_content(picture, "one") != picture_content(picture));
}

TEST_CASE("a tenant's cache stays within its quota, and others' stays where it is") {
  World world(64, 12);
  world.say(question, "two", "two");
  world.sessions->end_session("two");
  const PoolTenant kept = world.tenant("two");
  REQUIRE((kept.pages > 2 && kept.pages == kept.cached));
  for (int i = 0; i < 12; ++i) {
    const std::string session = "s" + std::to_string(i);
    CHECK_FALSE(world.say(words(5, "number " + std::to_string(i)), session, "one").empty());
    CHECK(world.tenant("one").pages <= 12);
    if (i % 2 == 0) world.sessions->end_session(session);
  }
  CHECK(world.tenant("one").pages > 8);
  CHECK(world.tenant("two").pages == kept.pages);
  CHECK(world.report().tenant_pages == 12);
  CHECK(world.report().tenants == 2);
  const std::uint64_t memory = world.report().memory;
  world.say(question, "again", "two");
  CHECK(world.report().memory > memory);
}

TEST_CASE(
    "what can never be within the quota is told at once, with what, how many and what to do") {
  World world(64, 8);
  FakeActivation& other = world.ask(question, "b", "two", 3);
  const FakeActivation& asked = world.ask(words(60), "a", "one");
  world.chat->step(world.ended);
  world.run();
  REQUIRE(world.ended.size() == 2);
  const StepOutcome& refused = world.ended[world.ended[0].activation == &asked ? 0 : 1];
  REQUIRE_FALSE(refused.result.ok());
  CHECK(refused.activation == &asked);
  CHECK(refused.result.error().code == ErrorCode::exhausted);
  const std::string& why = refused.result.error().message;
  CHECK(why.starts_with("the tenant 'one' has no more of the KV pool: "));
  CHECK(
      why.ends_with(" pages are needed, more than the 8 that it may have; ask for less or raise "
                    "`tenant_pages`"));
  CHECK_FALSE(said(other).empty());
  CHECK_FALSE(world.say("So", "c", "one").starts_with("the tenant"));
}

TEST_CASE("who waits for its tenant's quota waits for nobody else, and holds up nobody") {
  World world(64, 10);
  // The two of `one` want 9 pages each: one after the other.
  FakeActivation& first = world.ask(words(16, "and"), "a", "one", 24);
  FakeActivation& second = world.ask(words(16, "and"), "b", "one", 24);
  FakeActivation& other = world.ask(words(16, "and"), "c", "two", 8);
  std::vector<const Activation*> order;
  while (world.chat->busy()) {
    world.chat->step(world.ended);
    CHECK(world.tenant("one").pages <= 10);
  }
  for (const StepOutcome& one : world.ended) {
    CHECK((one.result.ok() ? "" : one.result.error().message) == "");
    order.push_back(one.activation);
  }
  CHECK(order == std::vector<const Activation*>{&other, &first, &second});
}

TEST_CASE("sessions of a tenant that is at its quota give their pages up for its next call") {
  World world(64, 12);
  std::vector<std::string> answers;
  for (const char* session : {"a", "b", "c", "d"})
    answers.push_back(world.say(words(20, session), session, "one"));
  world.say(question, "z", "two");
  const PoolTenant two = world.tenant("two");
  CHECK(world.tenant("one").pages <= 12);
  CHECK_FALSE(world.say("And then?", "a", "one").starts_with("the tenant"));
  CHECK(world.tenant("two").pages - world.tenant("two").cached == two.pages - two.cached);
}

TEST_CASE("what a tenant needs it takes of its own sessions first, and others keep theirs") {
  World world(22, 14);
  world.say(words(16, "and"), "a", "one", 24);
  world.say(words(16, "and"), "z", "two", 24);
  const auto rows_of = [&](const char* session) {
    return static_cast<ChatSessions&>(*world.sessions).session(session, "").sequence.tokens();
  };
  const std::size_t others = rows_of("z");
  REQUIRE((rows_of("a") > 0 && others > 0));
  REQUIRE(world.pool().pages_free() < 9);  // that the next one wants
  CHECK_FALSE(world.say(words(16, "so"), "b", "one", 24).starts_with("the tenant"));
  CHECK(rows_of("z") == others);
  CHECK(rows_of("a") == 0);
}

TEST_CASE(
    "what an encoder makes of a picture is of the picture's tenant, and so is a turn with it") {
  ScenesWorld world;
  world.kv().pool().limit_tenants(32);
  FakeActivation encode("encode", "s");
  auto* const image = new Payload;
  image->type = ValueType::image;
  image->tensor = Tensor::zeros(Dtype::u8, {32, 32, 3}).value();
  add_tenant("one", image->attributes);
  encode.give("image", PayloadRef(image));
  REQUIRE(world.vision->run(encode).ok());
  const PayloadRef features = encode.frames.at(0).second;
  CHECK(tenant_of(*features).value() == "one");

  FakeActivation shown("generate", "s");
  shown.give("features", features);
  world.model->admit(shown);
  world.run();
  const std::size_t read = world.sequence().tokens();
  REQUIRE(read > 0);
  CHECK(world.kv().pool().tenant_room("one")->held == world.sequence().pages().size());
  const FakeActivation& refused = world.say("what color is the circle", 2);
  world.run();
  CHECK_FALSE(world.well(refused));
  CHECK(world.sequence().tokens() == read);

  const Payload& hidden = *refused.input("hidden");
  auto attributes = hidden.attributes;
  add_tenant("one", attributes);
  FakeActivation asked("generate", "s");
  asked.give("hidden", make_tensor(hidden.tensor, std::move(attributes)));
  world.model->admit(asked);
  world.run();
  CHECK(world.well(asked));
  CHECK(world.sequence().tokens() > read);
  CHECK(world.kv().pool().tenant_room("one")->held == world.sequence().pages().size());
}

}  // namespace tenants
