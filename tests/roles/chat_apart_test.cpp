// Chats over one pool of pages, each role in a process of its own as far as it can tell: the same
// words as in one process, no row copied, and whoever goes costs only what is its own.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>

#include "base/file.h"
#include "chat_world.h"
#include "engine/picture/image_file.h"
#include "roles/handed_prefix.h"
#include "roles/kv_pages.h"
#include "roles/language_model.h"
#include "roles/vision_encoder.h"

using namespace sluice;

namespace {

GlobalParamSpec pool_of(std::int64_t pages) {
  GlobalParamSpec param;
  param.name.text = "kv";
  param.page_tokens = 8;
  param.pages = pages;
  return param;
}

std::unique_ptr<SharedParam> share(const GlobalParamSpec& param) {
  return share_pages(*Architecture::load(directory).value().text, param).value();
}

/// A role in a process of its own; null `shared`: with pages of its own.
struct Process {
  GlobalParamSpec param;
  RoleSpec role;
  std::unique_ptr<GlobalParam> sessions;
  std::unique_ptr<SteppedRole> chat;
  std::vector<StepOutcome> ended;

  Process(const std::string& name, const GlobalParamSpec& spec, SharedParam* shared,
          const char* precision = "exact")
      : param(spec) {
    GlobalParamMaking made{.spec = &param, .model_directory = directory};
    if (shared != nullptr) made.shared = shared->connect(name).value();
    sessions = ChatSessions::make(made).value();
    role.name.text = name;
    role.options = {{{"precision", {}}, {precision, {}}}};
    chat = role_over(*sessions, role, language_model_plugin());
  }
  ChatSessions& chats() { return static_cast<ChatSessions&>(*sessions); }
  std::uint64_t copied() { return chats().pages().rows_copied(); }
  PoolReport report() { return *sessions->pool_report(std::chrono::milliseconds(0)); }
  /// That what was told has been heard.
  std::size_t free() {
    (void)chats().pages().ask({}, {}, 1);
    return chats().pages().pages_free();
  }
  std::string outcome(const FakeActivation& activation) const {
    for (const StepOutcome& outcome : ended)
      if (outcome.activation == &activation)
        return outcome.result.ok() ? "" : outcome.result.error().message;
    return "it has not ended";
  }
  std::string end_of(FakeActivation& activation) {
    ended.clear();  // another activation may have stood where this one does
    chat->admit(activation);
    for (int i = 0; i < 500 && chat->busy(); ++i) chat->step(ended);
    return outcome(activation);
  }
};

FakeActivation message(const std::string& text, std::uint64_t call, const char* interface,
                       const std::string& session = "a", std::int64_t tokens = 12) {
  FakeActivation made(interface, session);
  auto* payload = new Payload;
  payload->type = ValueType::text;
  payload->text = text;
  payload->attributes = {
      {"generate", 1}, {"max_tokens", tokens}, {"temperature_milli", 700}, {"seed", 5}};
  made.give("text", PayloadRef(payload));
  made.call_number = call;
  return made;
}

FakeActivation answer_to(const FakeActivation& prefix, const std::string& session = "a") {
  FakeActivation made("decode", session);
  made.give("prefix", prefix.frames.at(0).second);
  return made;
}

/// What an encoder beside the process's role makes of a picture.
PayloadRef seen_by(Process& process, const std::string& file) {
  const auto eyes = role_over(*process.sessions, process.role, vision_encoder_plugin());
  FakeActivation picture("encode");
  picture.give("image", make_image(decode_image(read_whole_file(file, 1 << 20).value()).value()));
  eyes->admit(picture);
  std::vector<StepOutcome> ended;
  while (eyes->busy()) eyes->step(ended);
  return picture.frames.at(0).second;
}

/// A process that reads and one that writes.
struct Apart {
  GlobalParamSpec param;
  std::unique_ptr<SharedParam> shared;
  std::unique_ptr<Process> reader, writer;

  explicit Apart(std::int64_t pages = 64) : param(pool_of(pages)), shared(share(param)) {
    reader = begin("reader");
    writer = begin("writer");
  }
  std::unique_ptr<Process> begin(const char* name, const char* precision = "exact") const {
    return std::make_unique<Process>(name, param, shared.get(), precision);
  }
  FakeActivation read(const std::string& text, std::uint64_t call, const std::string& session = "a",
                      std::int64_t tokens = 12) const {
    FakeActivation made = message(text, call, "prefill", session, tokens);
    CHECK(reader->end_of(made) == "");
    return made;
  }
  FakeActivation write(const FakeActivation& prefix, const std::string& session = "a") const {
    FakeActivation made = answer_to(prefix, session);
    CHECK(writer->end_of(made) == "");
    return made;
  }
  /// Of those that nobody has, once both have told what they know.
  std::size_t free() const {
    (void)writer->free();
    return reader->free();
  }
};

/// Prompts that end within a page, at its end, and behind it.
const std::vector<std::string> texts{
    "Hello there, what is it that you see on the table, and who has put it there?",
    "And what is under the table?",
    "Thank you",
    "Thank you.",
    "Thank you..",
    "Thank you...",
    "Thank you....",
    "Thank you, so much",
    "Good"};

/// What one process answers, turn by turn.
std::vector<std::string> alone() {
  Process process("reader", pool_of(64), nullptr);
  std::vector<std::string> answers;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    FakeActivation one = message(texts[i], i + 1, "generate");
    CHECK(process.end_of(one) == "");
    answers.push_back(said(one));
  }
  return answers;
}

}  // namespace

TEST_CASE("a prompt is read in one process and answered in another, and not a row is copied") {
  const std::vector<std::string> want = alone();
  const Apart apart;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const FakeActivation prefix = apart.read(texts[i], i + 1);
    const FakeActivation wrote = apart.write(prefix);
    CHECK(said(wrote) == want[i]);
    CHECK(wrote.warnings.empty());
  }
  CHECK(apart.reader->copied() + apart.writer->copied() == 0);
  // The answer's pages are found by who reads the next prompt.
  const PoolReport reader = apart.reader->report(), writer = apart.writer->report();
  CHECK(reader.prompts == want.size());
  CHECK(reader.memory > reader.computed);
  CHECK(writer.prompts == 0);
  REQUIRE(reader.sessions == 1);
  CHECK_FALSE(reader.session_list[0].answering);
  CHECK(reader.session_list[0].tokens > reader.asked / want.size());
  CHECK(writer.sessions == 0);
  CHECK(apart.free() == 64);  // what nobody uses is anybody's
}

TEST_CASE("an answer about a picture goes on in another process, where its pages are still there") {
  std::vector<std::string> want;
  for (const bool is_apart : {false, true}) {
    const Apart apart;
    Process one("reader", pool_of(64), nullptr);
    for (std::uint64_t call = 1; call <= 3; ++call) {
      Process& reader = is_apart ? *apart.reader : one;
      const char* const how = is_apart ? "prefill" : "generate";
      if (call == 1) {
        FakeActivation shown(how, "a");
        shown.call_number = call;
        shown.give("features", seen_by(reader, directory + "/picture.png"));
        CHECK(reader.end_of(shown) == "");
      }
      FakeActivation asked = message(texts[call - 1], call, how);
      CHECK(reader.end_of(asked) == "");
      if (!is_apart)
        want.push_back(said(asked));
      else if (call < 3)
        CHECK(said(apart.write(asked)) == want[call - 1]);
      if (!is_apart || call < 3) continue;
      CHECK(read_prefix(*asked.frames.at(0).second, 1000)->has_pictures);
      CHECK(apart.free() < 64);
      apart.reader->chats().end_session("a");
      CHECK(apart.free() == 64);
      FakeActivation late = answer_to(asked);
      CHECK(apart.writer->end_of(late) ==
            "its prompt shows a picture, and was read too long ago or by a process that has died "
            "since: ask again");
    }
    CHECK(apart.reader->copied() + apart.writer->copied() == 0);
  }
}

TEST_CASE("an answer that its first token ends is given on as it is") {
  const Apart apart;
  const FakeActivation wrote = apart.write(apart.read(texts[0], 1, "a", 1));
  Process one("reader", pool_of(64), nullptr);
  FakeActivation whole = message(texts[0], 1, "generate", "a", 1);
  CHECK(one.end_of(whole) == "");
  CHECK(said(wrote) == said(whole));
  REQUIRE(!wrote.frames.empty());
  CHECK(wrote.frames.back().second->attribute("cut_off") ==
        whole.frames.back().second->attribute("cut_off"));
}

TEST_CASE("two chats in two processes share what they begin with and keep their own words") {
  const std::vector<std::string> want = alone();
  const Apart apart;
  for (std::size_t i = 0; i < want.size(); ++i)
    for (Process* process : {apart.reader.get(), apart.writer.get()}) {
      FakeActivation one = message(texts[i], i + 1, "generate");
      CHECK(process->end_of(one) == "");
      CHECK(said(one) == want[i]);
    }
  const PoolReport first = apart.reader->report(), second = apart.writer->report();
  CHECK(first.asked == second.asked);
  // All but what is in no full page, and the answers' ends.
  CHECK(second.memory > first.memory);
  CHECK(second.computed < first.computed);
  CHECK(apart.reader->copied() + apart.writer->copied() == 0);
  CHECK(apart.free() == 64);
}

TEST_CASE("who answers goes on where who has read the prompt has gone meanwhile") {
  const std::vector<std::string> want = alone();
  Apart apart;
  const FakeActivation prefix = apart.read(texts[0], 1);
  apart.reader = nullptr;
  FakeActivation wrote = answer_to(prefix);
  CHECK(apart.writer->end_of(wrote) == "");
  CHECK(said(wrote) == want[0]);
  REQUIRE(wrote.warnings.size() == 1);
  CHECK(wrote.warnings[0] ==
        "the process that has the conversation did not hear what was said: the next turn does not "
        "know of this one");
  // It begins anew in the next life.
  apart.reader = apart.begin("reader");
  CHECK(said(apart.write(apart.read(texts[0], 2))) == want[0]);
  CHECK(apart.free() == 64);
}

TEST_CASE("rows of other weights are not gone on with: the prompt is computed anew") {
  Process one("reader", pool_of(64), nullptr, "bf16");
  FakeActivation whole = message(texts[0], 1, "generate");
  CHECK(one.end_of(whole) == "");
  Apart apart;
  apart.writer = nullptr;
  apart.writer = apart.begin("writer", "bf16");  // as of files that have changed between two lives
  const FakeActivation wrote = apart.write(apart.read(texts[0], 1));
  CHECK(said(wrote) == said(whole));
  CHECK(wrote.warnings.empty());
  const PoolReport writer = apart.writer->report();
  CHECK(writer.computed == writer.asked);  // what the other has published is not found either
  CHECK(writer.prompts == 1);
  apart.reader->sessions->end_session("a");
  CHECK(apart.free() == 64);
}

TEST_CASE("where who answers has gone its call alone was not said") {
  const std::vector<std::string> want = alone();
  const bool has_begun = GENERATE(true, false);
  Apart apart;
  CHECK(said(apart.write(apart.read(texts[0], 1))) == want[0]);
  const FakeActivation prefix = apart.read(texts[1] + " And over it?", 2);
  if (has_begun) {
    FakeActivation wrote = answer_to(prefix);
    apart.writer->chat->admit(wrote);
    apart.writer->chat->step(apart.writer->ended);
    REQUIRE(apart.writer->chat->busy());
    CHECK(!wrote.frames.empty());
  }
  apart.writer = nullptr;
  apart.writer = apart.begin("writer");
  CHECK(said(apart.write(apart.read(texts[1], 3))) == want[1]);
  CHECK(apart.free() == 64);
}

TEST_CASE("an answer that was cancelled, or that nobody asked for, was not said") {
  const std::vector<std::string> want = alone();
  const int how = GENERATE(0, 1, 2);
  const Apart apart;
  CHECK(said(apart.write(apart.read(texts[0], 1))) == want[0]);
  const FakeActivation prefix = apart.read("Never mind", 2);
  FakeActivation stopped = answer_to(prefix);
  if (how < 2) apart.writer->chat->admit(stopped);
  if (how == 1) apart.writer->chat->step(apart.writer->ended);
  stopped.is_cancelled = true;
  while (apart.writer->chat->busy()) apart.writer->chat->step(apart.writer->ended);
  if (how < 2) CHECK(apart.writer->outcome(stopped) == "the call was cancelled");
  CHECK(said(apart.write(apart.read(texts[1], 3))) == want[1]);
  CHECK(apart.free() == 64);
}

TEST_CASE("an answer of a session that has moved on comes with a warning") {
  const Apart apart;
  const FakeActivation first = apart.read(texts[0], 1);
  const FakeActivation second = apart.read(texts[0], 2);
  const FakeActivation late = apart.write(first);
  CHECK(late.warnings.size() == 1);
  CHECK(apart.write(second).warnings.empty());
  apart.reader->sessions->end_session("a");
  CHECK(apart.free() == 64);
}

TEST_CASE("what nobody goes on with is given up after a while, and answered all the same") {
  const std::vector<std::string> want = alone();
  const Apart apart(20);
  Nanoseconds now = 0;
  apart.reader->chats().clock = [&] { return now; };
  const FakeActivation prefix = apart.read(texts[0], 1);
  CHECK(apart.free() < 20);
  now = ChatSessions::handed_patience;
  std::vector<StepOutcome> none;
  apart.reader->chat->step(none);
  CHECK(apart.free() == 20);
  FakeActivation wrote = apart.write(prefix);
  CHECK(said(wrote) == want[0]);
  CHECK(wrote.warnings.empty());
  CHECK(said(apart.write(apart.read(texts[1], 2))) == want[1]);
}

TEST_CASE("over few pages prompts wait for answers elsewhere, and none is refused or cut off") {
  constexpr std::uint64_t calls = 8;
  std::vector<std::string> want;
  {
    Process one("reader", pool_of(400), nullptr);
    for (std::uint64_t call = 1; call <= calls; ++call) {
      FakeActivation whole = message(texts[call - 1], call, "generate", "s" + std::to_string(call));
      CHECK(one.end_of(whole) == "");
      want.push_back(said(whole));
    }
  }
  const std::int64_t pages = GENERATE(16, 24);
  const Apart apart(pages);
  std::vector<FakeActivation> prompts, decodes;
  prompts.reserve(calls);
  decodes.reserve(calls);
  for (std::uint64_t call = 1; call <= calls; ++call) {
    const std::string session = "s" + std::to_string(call);
    prompts.push_back(message(texts[call - 1], call, "prefill", session));
    decodes.emplace_back("decode", session);
    apart.reader->chat->admit(prompts.back());
  }
  Process& reader = *apart.reader;
  Process& writer = *apart.writer;
  for (int steps = 0; reader.chat->busy() || writer.chat->busy(); ++steps) {
    REQUIRE(steps < 10'000);
    if (reader.chat->busy()) reader.chat->step(reader.ended);
    // All prompts that can be read are, before the first answer is gone on with.
    for (std::size_t i = 0; i < calls; ++i)
      if (!prompts[i].frames.empty() && decodes[i].inputs("prefix").empty() && steps > 50) {
        decodes[i].give("prefix", prompts[i].frames[0].second);
        writer.chat->admit(decodes[i]);
      }
    if (writer.chat->busy()) writer.chat->step(writer.ended);
  }
  for (std::size_t i = 0; i < calls; ++i) {
    CHECK(reader.outcome(prompts[i]) == "");
    CHECK(writer.outcome(decodes[i]) == "");
    CHECK(said(decodes[i]) == want[i]);
    CHECK(decodes[i].warnings.empty());
  }
  CHECK(reader.copied() + writer.copied() == 0);
  for (std::uint64_t call = 1; call <= calls; ++call)
    apart.reader->sessions->end_session("s" + std::to_string(call));
  CHECK(apart.free() == static_cast<std::size_t>(pages));
}

TEST_CASE("pages that another process has are waited for, and no answer is cut off for them") {
  const Apart apart(24);
  FakeActivation whole = message(texts[0], 1, "generate");
  Process one("reader", pool_of(64), nullptr);
  CHECK(one.end_of(whole) == "");
  KvPages& other = apart.writer->chats().pages();
  KvSequence held;
  std::vector<CopyPage> copies;
  const std::size_t needed = (one.report().asked + 11) / 8 + 1;
  REQUIRE(other.extend(held, (24 - needed + 1) * 8, copies).ok());  // one more than may be had
  FakeActivation asked = message(texts[0], 1, "generate");
  Process& reader = *apart.reader;
  reader.chat->admit(asked);
  for (int i = 0; i < 5; ++i) reader.chat->step(reader.ended);
  CHECK(reader.ended.empty());
  CHECK(asked.frames.empty());
  other.release(held);
  other.settle(0);
  for (int i = 0; i < 500 && reader.chat->busy(); ++i) reader.chat->step(reader.ended);
  CHECK(reader.outcome(asked) == "");
  CHECK(said(asked) == said(whole));
}

TEST_CASE("how far an answer is travels whole, and what cannot be is refused") {
  Generation begun;
  begun.options.tokens_max = 40;
  begun.options.sampling = {0.5F, 7, 0.25F};
  begun.options.seed = 1ULL << 60U;
  begun.options.share_prefix = false;
  begun.options.end_tokens = {3, 9};
  begun.tokens = {5};
  begun.text = "one";
  begun.finish = Generation::Finish::length;
  begun.end_token = 4;
  begun.limit = Generation::CutOff::tenant;
  begun.next_position = 3;
  begun.origin = {"model", 6, {{"picture", 12}}, 5};
  const std::vector<std::int32_t> prompt{1, 2};
  const std::vector<std::byte> bytes = encode_begun(begun);
  const std::optional<Generation> read = decode_begun(bytes, prompt, 10);
  REQUIRE(read.has_value());
  CHECK(encode_begun(*read) == bytes);
  CHECK(read->history == std::vector<std::int32_t>{1, 2, 5});
  CHECK(read->origin.pictures.at(0).content == "picture");
  CHECK_FALSE(decode_begun(bytes, prompt, 5).has_value());  // there is no token 5 then
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_begun(std::span(bytes).first(size), prompt, 10).has_value());
  std::vector<std::byte> longer = bytes;
  longer.push_back({});
  CHECK_FALSE(decode_begun(longer, prompt, 10).has_value());
  const auto is_read = [&](const auto& change) {
    std::optional<Generation> other = decode_begun(bytes, prompt, 10);
    change(other.value());
    return decode_begun(encode_begun(*other), prompt, 10).has_value();
  };
  CHECK(is_read([](Generation& it) { it.next_position = -1; }));
  CHECK_FALSE(is_read([](Generation& it) { it.next_position = 4; }));  // behind three tokens
  CHECK_FALSE(is_read([](Generation& it) { it.next_position = -2; }));
  CHECK_FALSE(is_read([](Generation& it) { it.options.tokens_max = 0; }));
  CHECK_FALSE(is_read([](Generation& it) { it.options.tokens_max = ~std::size_t{0}; }));
  CHECK_FALSE(is_read([](Generation& it) { it.options.sampling.top_k = ~std::size_t{0}; }));
  CHECK_FALSE(is_read([](Generation& it) { it.options.sampling.temperature = -1; }));
  CHECK_FALSE(is_read([](Generation& it) { it.options.sampling.top_p = std::nanf(""); }));
}
