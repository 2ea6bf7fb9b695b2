// A chat goes on over another machine's pages with the words that it would have said where it was,
// from what was told of it; nothing that is told is trusted.
#include "roles/chat_histories.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "chat_world.h"
#include "engine/picture/image_file.h"
#include "roles/language_model.h"
#include "roles/saved_message.h"
#include "runtime/node/history_store.h"
#include "tests/peer_hub.h"

using namespace sluice;

namespace chats_elsewhere {

namespace {

const std::string smolvlm = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/conversation_smolvlm";
constexpr auto npos = std::string::npos;
const std::vector<std::string> asked{"What is on the table?", "And then?", "Who says so?"};

/// The home of all sessions "a", each of one role.
struct Home {
  HistoryStore store;
  std::uint64_t call = 0;
  std::vector<ToldHistory> told;  // in the last `hear`

  /// As before an activation in that life of machine `machine`.
  Result<void> settle(SessionKeeper& keeper, std::uint32_t machine, std::uint32_t life = 1,
                      const std::string& role = "") {
    const std::optional<HistoryMark> has = keeper.ask_history("a", role, life);
    REQUIRE(has.has_value());
    const KeptHistory kept = store.ask({0, 0}, {machine, life}, *has);
    Result<void> settled = keeper.settle_history("a", role, life, kept, true);
    CHECK_FALSE(keeper.ask_history("a", role, life).has_value());
    return settled;
  }
  void hear(SessionKeeper& keeper, std::uint32_t machine, std::uint32_t life = 1) {
    told = keeper.take_history("a");
    for (const ToldHistory& one : told) store.add({0, 0}, {machine, life}, call, one);
  }
};

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

SessionKeeper& keeper_of(ChatWorld& world) { return static_cast<ChatSessions&>(*world.sessions); }

/// Turn `turn`; the first shows a picture.
std::string say(ChatWorld& world, std::size_t turn, bool with_picture) {
  FakeActivation image("answer", "a");
  image.give("image", make_image(decode_image(file_bytes(directory + "/picture.png")).value()));
  FakeActivation text = piece(asked[turn], "a");
  image.call_number = text.call_number = turn + 1;
  if (with_picture && turn == 0) world.chat->admit(image);
  world.chat->admit(text);
  world.ended.clear();
  world.run();
  for (const StepOutcome& one : world.ended)
    CHECK((one.result.ok() ? std::string() : one.result.error().message).empty());
  return said(text);
}

std::vector<std::string> uninterrupted(const std::string& model, bool with_picture) {
  ChatWorld world(64, {}, {}, nullptr, model);
  std::vector<std::string> answers;
  for (std::size_t turn = 0; turn < asked.size(); ++turn)
    answers.push_back(say(world, turn, with_picture));
  CHECK(world.sessions->pool_report(std::chrono::milliseconds(0)).has_value());
  CHECK(keeper_of(world).take_history("a").empty());  // nobody has asked
  return answers;
}

/// The text of a record, whatever stands behind it.
HistoryRecord changed(HistoryRecord record, std::size_t at, std::uint8_t value) {
  record.at(at) = static_cast<std::byte>(value);
  return record;
}

}  // namespace

TEST_CASE("a chat goes on elsewhere with the words it would have said, with and without pictures") {
  const std::string model = GENERATE(directory, smolvlm);
  const bool with_picture = GENERATE(false, true);
  INFO(model << (with_picture ? ", with a picture" : ""));
  const std::vector<std::string> want = uninterrupted(model, with_picture);
  Home home;
  for (std::size_t turn = 0; turn < asked.size(); ++turn) {
    ChatWorld world(64, {}, {}, nullptr, model);  // another machine each time
    const auto machine = static_cast<std::uint32_t>(turn + 1);
    CHECK(home.settle(keeper_of(world), machine).ok());
    CHECK(say(world, turn, with_picture) == want[turn]);
    ++home.call;
    home.hear(keeper_of(world), machine);
    // What was said before is not told again.
    REQUIRE(home.told.size() == 1);
    CHECK(home.told[0].part.behind.count == 2 * turn);
    CHECK(home.told[0].part.records.size() == 2);
    CHECK(home.told[0].part.complete == 2 * turn + 2);
  }
  CHECK(home.store.take_dropped().empty());
}

TEST_CASE("a chat in place goes back to what its home has, and on from there") {
  const std::vector<std::string> want = uninterrupted(directory, true);
  ChatWorld world;
  Home home;
  CHECK(home.settle(keeper_of(world), 1).ok());
  CHECK(say(world, 0, true) == want[0]);
  ++home.call;
  home.hear(keeper_of(world), 1);
  CHECK(say(world, 2, true) != want[1]);  // which its home has never heard
  CHECK(home.settle(keeper_of(world), 1, 2).ok());
  CHECK(say(world, 1, true) == want[1]);
  ++home.call;
  home.hear(keeper_of(world), 1, 2);
  REQUIRE(home.told.size() == 1);
  CHECK(home.told[0].part.behind.count == 2);
  CHECK(home.settle(keeper_of(world), 1, 3).ok());  // nothing is new
  CHECK(say(world, 2, true) == want[2]);
}

TEST_CASE("where nobody has what was told the whole is told again, once") {
  const std::vector<std::string> want = uninterrupted(directory, true);
  ChatWorld world;
  Home home;
  CHECK(home.settle(keeper_of(world), 1).ok());
  for (const std::size_t turn : {0U, 1U}) CHECK(say(world, turn, true) == want[turn]);
  keeper_of(world).take_history("a");
  keeper_of(world).history_dropped("a", "");
  CHECK(say(world, 2, true) == want[2]);
  home.hear(keeper_of(world), 1);
  REQUIRE(home.told.size() == 1);
  CHECK(home.told[0].part.behind.count == 0);
  CHECK(home.told[0].part.turn == 4);
  CHECK(home.told[0].part.records.size() == 6);
  ChatWorld other;
  CHECK(home.settle(keeper_of(other), 2).ok());
  CHECK(say(world, 0, false) == say(other, 0, false));
}

TEST_CASE("of a session that ends nothing stays, neither told nor settled") {
  ChatWorld world;
  SessionKeeper& keeper = keeper_of(world);
  Home home;
  CHECK(home.settle(keeper, 1).ok());
  const std::string first = say(world, 0, false);
  world.sessions->end_session("a");
  CHECK(keeper.take_history("a").empty());
  CHECK(keeper.ask_history("a", "", 1) == HistoryMark{});
  KeptHistory kept{.is_there = true};
  kept.part.records = {save_message({"user", "hello", {}}), save_message({"assistant", "hi", {}})};
  CHECK(keeper.settle_history("a", "", 1, kept, true).ok());
  world.sessions->end_session("a");
  CHECK(say(world, 0, false) == first);
}

TEST_CASE("a chat of two roles goes on with another reader") {
  struct Machine {
    GlobalParamSpec param;
    RoleSpec role;
    std::unique_ptr<GlobalParam> sessions;
    std::unique_ptr<SteppedRole> chat;
    std::vector<StepOutcome> ended;

    Machine(const std::string& name, PeerPort& port) {
      param.name.text = "kv";
      param.page_tokens = 8;
      param.pages = 64;
      sessions = ChatSessions::make({.spec = &param, .model_directory = directory, .peers = &port})
                     .value();
      role.name.text = name;
      role.options = {{{"precision", {}}, {"exact", {}}}};
      chat = role_over(*sessions, role, language_model_plugin());
    }
    SessionKeeper& keeper() { return static_cast<ChatSessions&>(*sessions); }
    void run(FakeActivation& activation) {
      ended.clear();
      chat->admit(activation);
      for (int i = 0; i < 500 && chat->busy(); ++i) chat->step(ended);
      REQUIRE(ended.size() == 1);
      CHECK((ended[0].result.ok() ? std::string() : ended[0].result.error().message).empty());
    }
  };
  const auto prompt = [](std::size_t turn) {
    FakeActivation made("prefill", "a");
    auto* payload = new Payload;
    payload->type = ValueType::text;
    payload->text = asked[turn];
    payload->attributes = {{"generate", 1}, {"max_tokens", 12}};
    made.give("text", PayloadRef(payload));
    made.call_number = turn + 1;
    return made;
  };
  const std::vector<std::string> want = uninterrupted(directory, false);
  const bool answer_first = GENERATE(false, true);
  Home home;
  for (std::size_t turn = 0; turn < asked.size(); ++turn) {
    PeerHub hub;
    Machine reader("reader", hub.add(0)), writer("writer", hub.add(1));
    CHECK(home.settle(reader.keeper(), 1, 1, "reader").ok());
    FakeActivation reads = prompt(turn);
    reader.run(reads);
    ++home.call;
    FakeActivation writes("decode", "a");
    writes.give("prefix", reads.frames.at(0).second);
    if (!answer_first) home.hear(reader.keeper(), 1);
    writer.run(writes);
    CHECK(said(writes) == want[turn]);
    home.hear(writer.keeper(), 2);
    REQUIRE(home.told.size() == 1);
    CHECK(home.told[0].role == "reader");
    CHECK_FALSE(home.told[0].is_own);
    if (answer_first) home.hear(reader.keeper(), 1);
    CHECK(home.store.find({0, 0})->holder == Origin{1, 1});
    CHECK(home.store.find({0, 0})->complete == 2 * turn + 2);
  }
  CHECK(home.store.take_dropped().empty());
}

TEST_CASE("a message comes back as it was, and one that is not sound is refused by its reason") {
  const Model model = Model::open(directory).value();
  PictureInput picture;
  picture.features.assign(8 * model.text().width(), 0.5F);
  picture.feature_rows = 8;
  picture.grids = {{1, 4, 8}};
  const ChatMessage message{"user", "look", {picture}};
  const HistoryRecord record = save_message(message);
  const Result<ChatMessage> read = restore_message(record, true, model);
  REQUIRE(read.ok());
  CHECK(read->role == "user");
  CHECK(read->text == "look");
  REQUIRE(read->pictures.size() == 1);
  CHECK(read->pictures[0].features == picture.features);
  CHECK(read->pictures[0].grids == picture.grids);
  CHECK(save_message(*read) == record);
  const auto problem = [&](const HistoryRecord& bytes, bool is_user = true) {
    const Result<ChatMessage> made = restore_message(bytes, is_user, model);
    return made.ok() ? std::string() : made.error().message;
  };
  const std::string shorter = "shorter than it says, or shows too many pictures";
  CHECK(problem(changed(record, 0, 3)).find("of a form that this version does not know") != npos);
  CHECK(problem(record, false).find("not of whose turn it is") != npos);
  CHECK(problem(changed(record, 1, 7)).find("not of whose turn it is") != npos);
  CHECK(problem(changed(record, 5, 255)).find(shorter) != npos);
  CHECK(problem(changed(record, 9, 255)).find(shorter) != npos);
  const std::size_t head = 10 + 4;  // of the picture, behind the text
  CHECK(problem(changed(record, head, 2)).find("ends amid a picture") != npos);
  CHECK(problem(changed(record, head + 7, 255)).find("rows are not those of this model") != npos);
  CHECK(problem(changed(record, head + 20, 65)).find("rows are not those of this model") != npos);
  CHECK(problem(changed(record, head + 8, 3)).find("the features are") != npos);
  for (std::size_t size = 0; size < record.size(); size += size < 40 ? 1 : 97)
    CHECK_FALSE(
        problem(HistoryRecord(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(size)))
            .empty());
  HistoryRecord longer = record;
  longer.push_back(std::byte{0});
  CHECK(problem(longer).find("longer than it says") != npos);
  const ChatMessage shows{"assistant", "look", {picture}};
  CHECK(problem(save_message(shows), false).find(shorter) != npos);
}

TEST_CASE("what a home says that is no chat begins the session anew, and says so") {
  const std::vector<std::string> want = uninterrupted(directory, false);
  KeptHistory kept{.is_there = true};
  kept.part.records = {save_message({"user", "hello", {}}), save_message({"assistant", "hi", {}})};
  SECTION("two answers") { kept.part.records[0] = kept.part.records[1]; }
  SECTION("a broken record") { kept.part.records[1].pop_back(); }
  SECTION("records of nothing") { kept.is_there = false; }
  ChatWorld world;
  SessionKeeper& keeper = keeper_of(world);
  REQUIRE(keeper.ask_history("a", "", 1).has_value());
  const Result<void> settled = keeper.settle_history("a", "", 1, kept, true);
  REQUIRE_FALSE(settled.ok());
  CHECK(settled.error().code == ErrorCode::corrupt);
  CHECK(say(world, 0, false) == want[0]);
}

TEST_CASE("a session that says more than may be kept says so once, and tells no more of it") {
  ChatHistories histories;
  REQUIRE(histories.ask("a", "llm", 1).has_value());
  histories.settle("a", "llm", 1, ChatHistories::Settled{}, true);
  std::vector<ChatMessage> messages{{"user", std::string(history_bytes_max, 'x'), {}},
                                    {"assistant", "hi", {}}};
  histories.said("a", "llm", messages, 2, 2);
  const std::vector<ToldHistory> told = histories.take("a");
  REQUIRE(told.size() == 1);
  CHECK(told[0].is_too_large);
  CHECK(told[0].part.records.empty());
  messages.push_back({"user", "and?", {}});
  messages.push_back({"assistant", "so", {}});
  histories.said("a", "llm", messages, 2, 4);
  CHECK(histories.take("a").empty());
}

TEST_CASE("what was void since it was told is told over, from where the session went back") {
  ChatHistories histories;
  REQUIRE(histories.ask("a", "llm", 1).has_value());
  histories.settle("a", "llm", 1, ChatHistories::Settled{}, true);
  HistoryStore store;
  const auto hear = [&] {
    for (const ToldHistory& told : histories.take("a")) store.add({0, 0}, {1, 1}, 1, told);
  };
  const std::vector<ChatMessage> asks{{"user", "hello", {}}};
  histories.said("a", "llm", asks, 1, 0);  // and nobody has answered
  hear();
  const std::vector<ChatMessage> turn{{"user", "good day", {}}, {"assistant", "hi", {}}};
  histories.said("a", "llm", turn, 2, 2);
  hear();
  CHECK(store.take_dropped().empty());
  const KeptHistory kept = store.ask({0, 0}, {2, 1}, {});
  CHECK(kept.part.records ==
        std::vector<HistoryRecord>{save_message(turn[0]), save_message(turn[1])});
}

}  // namespace chats_elsewhere
