// Prompts read by one role and answered by another over few pages: calls wait for pages, and none
// is refused or cut off.
#include <map>

#include "chat_world.h"
#include "roles/language_model.h"
#include "roles/tenant.h"

using namespace sluice;

namespace {

/// Two roles over one pool, stepped by hand.
struct Split {
  ChatWorld world;
  RoleSpec reading, writing;
  std::unique_ptr<SteppedRole> reader, writer;
  std::vector<StepOutcome> read, written;

  explicit Split(std::int64_t pages)
      : world(pages), reader(make(reading, "reader")), writer(make(writing, "writer")) {}

  std::unique_ptr<SteppedRole> make(RoleSpec& role, const char* name) const {
    role.name.text = name;
    role.options = {{{"precision", {}}, {"exact", {}}}};
    RoleMaking making;
    making.role = &role;
    making.model_directory = directory;
    making.global_params = {world.sessions.get()};
    auto made = language_model_plugin().make(making);
    REQUIRE(made.ok());
    return std::get<std::unique_ptr<SteppedRole>>(std::move(made).value());
  }
};

FakeActivation asked(const std::string& interface, std::uint64_t call) {
  FakeActivation made(interface, "session " + std::to_string(call));
  made.call_number = call;
  return made;
}

FakeActivation prompt(const std::string& interface, std::uint64_t call) {
  FakeActivation made = asked(interface, call);
  auto* payload = new Payload;
  payload->type = ValueType::text;
  payload->text = "What is on the table of number " + std::to_string(call) + "?";
  payload->attributes = {{"max_tokens", 12}};
  made.give("text", PayloadRef(payload));
  return made;
}

constexpr std::uint64_t calls = 8;

/// By one role with pages for all.
std::map<std::uint64_t, std::string> answers() {
  Split split(400);
  std::map<std::uint64_t, std::string> made;
  for (std::uint64_t call = 1; call <= calls; ++call) {
    FakeActivation one = prompt("generate", call);
    split.reader->admit(one);
    while (split.reader->busy()) split.reader->step(split.read);
    REQUIRE(split.read.back().result.ok());
    made[call] = said(one);
  }
  return made;
}

}  // namespace

TEST_CASE("calls at once over few pages wait for each other between prompt and answer") {
  const auto want = answers();
  for (const std::int64_t pages : {14, 24}) {
    INFO(pages);
    Split split(pages);
    std::vector<FakeActivation> prompts, decodes;
    prompts.reserve(calls);
    decodes.reserve(calls);
    for (std::uint64_t call = 1; call <= calls; ++call) {
      prompts.push_back(prompt("prefill", call));
      decodes.push_back(asked("decode", call));
      split.reader->admit(prompts.back());
    }
    // All prompts that can be read are, before the first answer is gone on with.
    std::size_t begun = 0, steps = 0;
    while (split.reader->busy() || split.writer->busy()) {
      REQUIRE(++steps < 10'000);
      if (split.reader->busy()) split.reader->step(split.read);
      for (std::size_t i = 0; i < calls; ++i)
        if (!prompts[i].frames.empty() && decodes[i].inputs("prefix").empty() && steps > 50) {
          decodes[i].give("prefix", prompts[i].frames[0].second);
          split.writer->admit(decodes[i]);
          ++begun;
        }
      if (split.writer->busy()) split.writer->step(split.written);
    }
    CHECK(begun == calls);
    for (const StepOutcome& one : split.read) CHECK(one.result.ok());
    for (const StepOutcome& one : split.written) {
      INFO((one.result.ok() ? "" : one.result.error().message));
      CHECK(one.result.ok());
    }
    for (std::uint64_t call = 1; call <= calls; ++call)
      CHECK(said(decodes[call - 1]) == want.at(call));
  }
}

TEST_CASE(
    "an answer that nobody goes on with holds no pages once its session ends or speaks again") {
  for (const bool ends : {true, false}) {
    Split split(14);
    FakeActivation first = prompt("prefill", 1), other = prompt("prefill", 2),
                   third = prompt("prefill", 3), fourth = prompt("prefill", 4);
    for (FakeActivation* one : {&first, &other, &third, &fourth}) split.reader->admit(*one);
    for (int i = 0; i < 50; ++i) split.reader->step(split.read);
    const std::size_t done = split.read.size();
    REQUIRE(done > 0);
    REQUIRE(done < 4);  // the others wait for the pages of the answers that have begun
    FakeActivation again("prefill", "session 1");
    again.call_number = 9;
    if (ends) {
      split.world.sessions->end_session("session 1");
    } else {
      again.give("text", first.inputs("text")[0]);
      split.reader->admit(again);
    }
    for (int i = 0; i < 50; ++i) split.reader->step(split.read);
    CHECK(split.read.size() > done);
    for (const StepOutcome& one : split.read) CHECK(one.result.ok());
    for (const char* session : {"session 1", "session 2", "session 3", "session 4"})
      split.world.sessions->end_session(session);
    while (split.reader->busy()) {
      split.reader->step(split.read);
      for (const char* session : {"session 1", "session 2", "session 3", "session 4"})
        split.world.sessions->end_session(session);
    }
    CHECK(split.world.pool().pages_free() == split.world.pool().pages());
  }
}

TEST_CASE("an answer that nobody goes on with gives its pages to others after a while") {
  const auto want = answers();
  Split split(14);
  auto& sessions = static_cast<ChatSessions&>(*split.world.sessions);
  Nanoseconds now = 0;
  sessions.clock = [&] { return now; };
  std::vector<FakeActivation> prompts;
  for (std::uint64_t call = 1; call <= 4; ++call) prompts.push_back(prompt("prefill", call));
  for (FakeActivation& one : prompts) split.reader->admit(one);
  for (int i = 0; i < 50; ++i) split.reader->step(split.read);
  const std::size_t done = split.read.size();
  REQUIRE(done > 0);
  REQUIRE(done < 4);  // the others wait for the pages of the answers that have begun
  now = ChatSessions::handed_patience - 1;
  for (int i = 0; i < 50; ++i) split.reader->step(split.read);
  CHECK(split.read.size() == done);
  // Nobody has ended or said anything: time has passed.
  for (int i = 0; i < 200 && split.reader->busy(); ++i) {
    now += ChatSessions::handed_patience;
    split.reader->step(split.read);
  }
  CHECK(split.read.size() == 4);
  for (const StepOutcome& one : split.read) CHECK(one.result.ok());
  now += ChatSessions::handed_patience;
  for (std::uint64_t call = 1; call <= 4; ++call) {
    // Who goes on with one all the same has the same words.
    FakeActivation decode = asked("decode", call);
    decode.give("prefix", prompts[call - 1].frames.at(0).second);
    split.writer->admit(decode);
    for (int i = 0; i < 500 && split.writer->busy(); ++i) split.writer->step(split.written);
    REQUIRE(split.written.size() == call);
    CHECK(split.written.back().result.ok());
    CHECK(said(decode) == want.at(call));
  }
  for (std::uint64_t call = 1; call <= 4; ++call)
    sessions.end_session("session " + std::to_string(call));
  CHECK(split.world.pool().pages_free() == split.world.pool().pages());
}

TEST_CASE("an answer that waits to be gone on with is not given up for another tenant's call") {
  const auto want = answers();
  Split split(24);
  FakeActivation first = prompt("prefill", 1), decode = asked("decode", 1);
  split.reader->admit(first);
  while (split.reader->busy()) split.reader->step(split.read);
  auto* const text = new Payload;
  text->type = ValueType::text;
  text->text = "And then?";
  add_tenant("two", text->attributes);
  FakeActivation theirs("prefill", "session 1");
  theirs.call_number = 9;
  theirs.give("text", PayloadRef(text));
  split.reader->admit(theirs);
  while (split.reader->busy()) split.reader->step(split.read);
  REQUIRE(split.read.size() == 2);
  CHECK(split.read.back().result.error().code == ErrorCode::invalid_argument);
  decode.give("prefix", first.frames.at(0).second);
  split.writer->admit(decode);
  while (split.writer->busy()) split.writer->step(split.written);
  REQUIRE(split.written.size() == 1);
  CHECK(split.written.back().result.ok());
  CHECK(said(decode) == want.at(1));
}
