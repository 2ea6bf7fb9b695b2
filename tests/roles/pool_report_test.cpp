// What a `paged_kv` tells people of its pool: pages, sessions, where prompts' tokens came from, and
// what it says while a forward runs.
#include "base/pool_report.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "chat_world.h"
#include "roles/paged_kv.h"
#include "tests/directories.h"
#include "tests/peer_hub.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

constexpr std::chrono::milliseconds at_once{0};

PoolReport report_of(const GlobalParam& param) {
  const std::optional<PoolReport> report = param.pool_report(at_once);
  REQUIRE(report.has_value());
  CHECK(report->free + report->cached + report->used == report->pages);
  CHECK(report->memory + report->brought + report->computed == report->asked);
  CHECK(report->shared <= report->used);
  return *report;
}

void answer(ChatWorld& world, const std::string& text, const std::string& session) {
  FakeActivation asked = piece(text, session);
  world.chat->admit(asked);
  world.run();
  REQUIRE(world.ended.back().result.ok());
}

const std::string question = "What is on the table, and what is under it?";

}  // namespace

TEST_CASE("a pool's report counts pages, sessions and where prompts came from") {
  ChatWorld world;
  const PoolReport empty = report_of(*world.sessions);
  CHECK((empty.pages == 64 && empty.free == 64 && empty.sessions == 0 && empty.asked == 0));
  CHECK((empty.page_tokens == 8 && empty.page_bytes == world.pool().shape().page_bytes()));
  CHECK(empty.model == directory);
  CHECK(empty.source == PoolReport::Source::nowhere);

  answer(world, question, "a");
  const PoolReport one = report_of(*world.sessions);
  CHECK((one.prompts == 1 && one.asked == one.computed && one.computed > 20));
  CHECK((one.used > 2 && one.shared == 0 && one.cached == 0 && one.published > 2));
  REQUIRE(one.session_list.size() == 1);
  CHECK((one.session_list[0].name == "a" && !one.session_list[0].answering));
  CHECK(one.session_list[0].tokens > one.computed);  // the answer too
  CHECK(one.session_list[0].kept > one.computed);
  CHECK(one.session_list[0].kept <= one.session_list[0].tokens);

  // Another that begins as the first did has its pages.
  answer(world, question, "b");
  const PoolReport two = report_of(*world.sessions);
  CHECK((two.prompts == 2 && two.memory >= 16 && two.computed < one.computed + 16));
  CHECK(two.shared > 1);
  CHECK((two.sessions == 2 && two.session_list[1].name == "b"));

  world.sessions->end_session("b");
  world.sessions->end_session("a");
  const PoolReport after = report_of(*world.sessions);
  CHECK((after.sessions == 0 && after.used == 0 && after.cached == two.published));
  // Both have ended, so both were visits; the later half is what the second one asked for, which
  // the first had said too.
  CHECK((after.window_blocks > 2 && after.window_hits == after.window_blocks));
  CHECK(after.window_optimum == after.window_hits);
}

TEST_CASE("a session's idle time is since a role asked for it, and its pages go with its answer") {
  ChatWorld world;
  auto& sessions = static_cast<ChatSessions&>(*world.sessions);
  Nanoseconds now = 5'000'000'000;
  sessions.clock = [&] { return now; };
  answer(world, question, "a");
  now += 2'500'000'000;
  FakeActivation asked = piece("And who sits at it?", "b");
  world.chat->admit(asked);
  while (!report_of(sessions).sessions || report_of(sessions).sessions < 2)
    world.chat->step(world.ended);
  const PoolReport during = report_of(sessions);
  CHECK((during.session_list[0].idle_ms == 2500 && !during.session_list[0].answering));
  CHECK((during.session_list[1].idle_ms == 0 && during.session_list[1].answering));
  CHECK(during.session_list[1].kept == 0);
  CHECK(during.prompts == 1);  // of the one that is under way nothing is known yet
  world.run();
  CHECK(report_of(sessions).prompts == 2);
}

TEST_CASE("what came from a disk is told apart from what was in memory") {
  const ScratchFolder folder;
  for (const bool is_first : {true, false}) {
    ChatWorld world(64, {}, folder.path() + "/pages");
    answer(world, question, "a");
    const PoolReport report = report_of(*world.sessions);
    CHECK(report.source == PoolReport::Source::disk);
    CHECK((report.brought == 0) == is_first);
    CHECK((report.brought_pages == 0) == is_first);
    CHECK(report.brought_bytes == report.brought_pages * report.page_bytes);
    CHECK(report.memory == 0);
    CHECK(report.source_off.empty());
    CHECK((report.disk_broken == 0 && report.disk_reads.count == report.brought_pages));
    if (!is_first) CHECK(report.source_pages >= report.brought_pages);
    const_cast<KvTier*>(static_cast<ChatSessions&>(*world.sessions).tier())->flush();
    std::uint64_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder.path() + "/pages"))
      if (file.path().filename().string().starts_with("segment-")) bytes += file.file_size();
    CHECK(bytes > 0);
    CHECK(report_of(*world.sessions).source_bytes == bytes);
  }
}

namespace {

void ask_of(GlobalParam& sessions, const std::string& session) {
  RoleSpec role;
  role.name.text = "llm";
  role.options = {{{"precision", {}}, {"exact", {}}}};
  RoleMaking making;
  making.role = &role;
  making.model_directory = directory;
  making.global_params = {&sessions};
  auto chat = std::get<std::unique_ptr<SteppedRole>>(chat_model_plugin().make(making).value());
  FakeActivation asked = piece(question, session);
  std::vector<StepOutcome> ended;
  chat->admit(asked);
  while (chat->busy()) chat->step(ended);
  REQUIRE(ended.at(0).result.ok());
}

}  // namespace

TEST_CASE("of a pool with a folder and other machines each is told by itself") {
  const ScratchFolder scratch;
  GlobalParamSpec param;
  param.name.text = "kv";
  param.page_tokens = 8;
  param.pages = 64;
  param.ssd = Name{scratch.path() + "/pages", {}};
  PeerHub hub;
  const auto made = [&](std::uint32_t machine, std::uint32_t life) {
    return ChatSessions::make(
               {.spec = &param, .model_directory = directory, .peers = &hub.add(machine, life)})
        .value();
  };
  const std::unique_ptr<GlobalParam> one = made(0, 1);
  std::unique_ptr<GlobalParam> other = made(1, 1);
  ask_of(*one, "a");
  for (const std::uint32_t life : {2U, 3U}) {
    ask_of(*other, "a");
    const PoolReport report = report_of(*other);
    CHECK(report.source == PoolReport::Source::both);
    CHECK(report.memory == 0);
    CHECK(report.brought > 16);
    const bool is_first = life == 2;  // the pages come from the other machine, then from its folder
    CHECK((report.brought_pages > 0) == is_first);
    CHECK((report.disk_read == 0) == is_first);
    CHECK(report.disk_tokens == (is_first ? 0 : report.brought));
    const_cast<KvTier*>(static_cast<ChatSessions&>(*other).tier())->flush();
    CHECK(report_of(*other).source_pages >= report.brought / 8);
    CHECK(report.source_off.empty());
    other = nullptr;
    other = made(1, life);
  }
  CHECK(std::filesystem::exists(scratch.path() + "/pages/machine-0/secret"));
  CHECK(std::filesystem::exists(scratch.path() + "/pages/machine-1/secret"));
}

TEST_CASE("what was pulled from another machine is told apart, and pages are counted on both") {
  PeerHub hub;
  GlobalParamSpec param;
  param.name.text = "kv";
  param.page_tokens = 8;
  param.pages = 64;
  const auto made = [&](std::uint32_t machine) {
    return ChatSessions::make(
               {.spec = &param, .model_directory = directory, .peers = &hub.add(machine)})
        .value();
  };
  const std::unique_ptr<GlobalParam> one = made(0), other = made(1);
  ask_of(*one, "a");
  ask_of(*other, "a");
  const PoolReport gave = report_of(*one), got = report_of(*other);
  CHECK(got.name == "kv");
  CHECK((gave.source == PoolReport::Source::machines && gave.brought == 0));
  CHECK((got.brought > 16 && got.brought <= got.brought_pages * 8));
  CHECK((gave.pulls.count == 0 && got.pulls.count > 0));
  CHECK((gave.given_pages == got.brought_pages && gave.given_bytes >= got.brought_bytes));
}

TEST_CASE("while somebody has a turn a report is the last one, or none, and the next is new") {
  ChatWorld world;
  auto& sessions = static_cast<ChatSessions&>(*world.sessions);
  SharedEngine& shared =
      (*sessions.engine(directory, kernels::WeightFormat::exact, PlannerOptions{}).value()).shared;
  {
    SharedEngine::Turn turn(shared);
    turn.was_used();
    const PoolReport unseen = sessions.pool_report(at_once).value();
    CHECK((unseen.age_ms < 0 && unseen.pages == 0 && unseen.model == directory));
  }
  CHECK(report_of(sessions).age_ms == 0);
  {
    SharedEngine::Turn turn(shared);
    turn.was_used();
    const PoolReport old = sessions.pool_report(at_once).value();
    CHECK((old.age_ms >= 0 && old.pages == 64));
  }
  CHECK(shared.between_turns([] {}, at_once));
}

TEST_CASE("who looks while another has a turn sees what it is when that ends") {
  ChatWorld world;
  auto& sessions = static_cast<ChatSessions&>(*world.sessions);
  SharedEngine& shared =
      (*sessions.engine(directory, kernels::WeightFormat::exact, PlannerOptions{}).value()).shared;
  int state = 0, seen = -1;
  bool told = false;
  std::thread looks;
  {
    SharedEngine::Turn turn(shared);
    turn.was_used();
    looks = std::thread(
        [&] { told = shared.between_turns([&] { seen = state; }, std::chrono::minutes(1)); });
    // It may ask before or after the end of the turn: it sees the same.
    state = 7;
  }
  looks.join();
  CHECK((told && seen == 7));
}

TEST_CASE("a pool of drawings tells its conversations") {
  GlobalParamSpec param;
  param.name.text = "kv";
  param.pages = 40;
  const auto kv =
      PagedKv::make({&param, std::string(SLUICE_SOURCE_DIR) + "/models/scenes"}).value();
  static_cast<PagedKv&>(*kv).conversation("b");
  const PoolReport report = report_of(*kv);
  CHECK((report.pages == 40 && report.free == 40 && report.name == "kv"));
  REQUIRE(report.session_list.size() == 1);
  CHECK((report.session_list[0].name == "b" && report.session_list[0].tokens == 0));
}
