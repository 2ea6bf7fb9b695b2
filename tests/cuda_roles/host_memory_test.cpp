// Pages that a GPU has given up and the host's memory, or a folder behind it, still has: turns that
// need them compute fewer rows and say the same.
#include <catch2/catch.hpp>
#include <memory>

#include "tests/cuda_roles/watched_texts.h"
#include "tests/peer_hub.h"
#include "tests/roles/chat_world.h"
#include "tests/scratch_folder.h"
#ifdef SLUICE_EMULATED_TESTS
#include "kernels/cuda/emulation.h"
#endif

using namespace sluice;

namespace {

constexpr std::int64_t few = 18;  // pages: room for one conversation
const std::vector<std::string> questions{"What is on the table?", "And then?", "Why is that?"};

/// Three sessions by turns, each with a longer history: what they are told.
std::vector<std::string> talk(ChatWorld& world) {
  std::vector<std::string> made;
  std::uint64_t call = 0;
  for (const std::string& question : questions)
    for (const char* session : {"a", "b", "c"}) {
      FakeActivation asked = piece(session + (" asks: " + question), session, true, 6);
      asked.call_number = ++call;
      world.chat->admit(asked);
      world.run();
      made.push_back(said(asked));
    }
  for (const StepOutcome& outcome : world.ended) {
    INFO((outcome.result.ok() ? "" : outcome.result.error().message));
    CHECK(outcome.result.ok());
  }
  return made;
}

/// On the CPU, with room for all of them.
const std::vector<std::string>& told_on_cpu() {
  static const std::vector<std::string> told = [] {
    ChatWorld world(256);
    return talk(world);
  }();
  return told;
}

PoolReport report(const ChatWorld& world) {
  return *world.sessions->pool_report(std::chrono::milliseconds(100));
}

}  // namespace

TEST_CASE("turns whose pages the GPU has given up find them in the host's memory") {
  if (!cuda_is_there()) return;
  const WatchedTexts watched;
  ChatWorld large(256, {}, {}, &watched), alone(few, {}, {}, &watched, directory, 0),
      world(few, {}, {}, &watched);
  const std::vector<std::string>& want = told_on_cpu();
  CHECK(talk(large) == want);
  const std::size_t best = watched.take().rows;
  CHECK(talk(alone) == want);
  const std::size_t worst = watched.take().rows;
  CHECK(talk(world) == want);
  const std::size_t rows = watched.take().rows;
  INFO(best << " " << rows << " " << worst);
  CHECK(rows < worst);
  CHECK(best <= rows);
  CHECK(!report(alone).host.has_value());
  const PoolReport told = report(world);
  REQUIRE(told.host.has_value());
  CHECK(told.host->raised > 0);
  CHECK(told.host->lowered >= told.host->raised / 2);
  CHECK(told.host->pages == 2 * few);
  CHECK(told.host->off.empty());
  CHECK(told.brought > 0);
  CHECK(told.source == PoolReport::Source::nowhere);
  CHECK(told.brought + told.memory + told.computed == told.asked);
  CHECK(told.computed < report(alone).computed);
  for (const char* session : {"a", "b", "c"}) world.sessions->end_session(session);
  CHECK(world.pool().pages_free() == world.pool().pages());
}

TEST_CASE("a GPU's pages are in a folder too, and found there by the next process") {
  if (!cuda_is_there()) return;
  const ScratchFolder scratch;
  const std::string folder = scratch.path() + "/pages";
  const WatchedTexts watched;
  std::size_t rows = 0;
  {
    ChatWorld world(64, {}, folder, &watched);
    CHECK(talk(world) == told_on_cpu());
    rows = watched.take().rows;
  }
  ChatWorld world(64, {}, folder, &watched);
  CHECK(talk(world) == told_on_cpu());
  CHECK(watched.take().rows < rows);
  const PoolReport told = report(world);
  CHECK(told.source == PoolReport::Source::disk);
  CHECK(told.brought_pages > 0);
  REQUIRE(told.host.has_value());
  CHECK(told.host->raised >= told.brought_pages);
}

TEST_CASE("pages that a GPU has made are not the CPU's, nor those of another precision") {
  if (!cuda_is_there()) return;
  const ScratchFolder scratch;
  const std::string folder = scratch.path() + "/pages";
  {
    ChatWorld world(64, {}, folder, &cuda_texts());
    (void)talk(world);
    CHECK(report(world).host->lowered > 0);
  }
  ChatWorld on_cpu(64, {}, folder);
  (void)talk(on_cpu);
  CHECK(report(on_cpu).source_pages > 0);
  CHECK(report(on_cpu).brought_pages == 0);
}

TEST_CASE("another machine's GPU goes on with what this one's has computed") {
  if (!cuda_is_there()) return;
  PeerHub hub;
  const WatchedTexts watched;
  std::size_t rows[2] = {};
  std::unique_ptr<GlobalParam> pages[2];
  std::unique_ptr<SteppedRole> chats[2];
  GlobalParamSpec param;
  param.name.text = "kv";
  param.page_tokens = 8;
  param.pages = 64;
  param.device = EngineDevice::cuda;
  RoleSpec role;
  role.options = {{{"precision", {}}, {"exact", {}}}};
  std::string words[2];
  for (std::uint32_t machine = 0; machine < 2; ++machine) {
    pages[machine] =
        ChatSessions::make({&param, directory, -1, &hub.add(machine), "kv"}, &watched).value();
    chats[machine] = role_over(*pages[machine], role, chat_model_plugin());
  }
  for (std::uint32_t machine = 0; machine < 2; ++machine) {
    FakeActivation asked = piece("Hello there, what is on the table?", "a");
    std::vector<StepOutcome> ended;
    chats[machine]->admit(asked);
    while (chats[machine]->busy()) chats[machine]->step(ended);
    REQUIRE(ended.size() == 1);
    REQUIRE(ended[0].result.ok());
    words[machine] = said(asked);
    rows[machine] = watched.take().rows;
  }
  CHECK(words[1] == words[0]);
  CHECK(rows[1] <= 8);  // the prompt's last page
  CHECK(rows[0] > 24);
  const PoolReport first = *pages[0]->pool_report(std::chrono::milliseconds(100)),
                   second = *pages[1]->pool_report(std::chrono::milliseconds(100));
  CHECK(second.source == PoolReport::Source::machines);
  CHECK(second.brought_pages >= 3);
  CHECK(second.brought_pages == first.given_pages);
  REQUIRE(second.host.has_value());
  CHECK(second.host->raised == second.brought_pages);
  for (const auto& one : pages) one->end_session("a");
}

TEST_CASE("a GPU's pages come from its machine's folder, and without one from the other machine") {
  if (!cuda_is_there()) return;
  const ScratchFolder scratch;
  PeerHub hub;
  const WatchedTexts watched;
  GlobalParamSpec param;
  param.name.text = "kv";
  param.page_tokens = 8;
  param.pages = 64;
  param.device = EngineDevice::cuda;
  param.ssd = Name{scratch.path() + "/pages", {}};
  RoleSpec role;
  role.options = {{{"precision", {}}, {"exact", {}}}};
  std::unique_ptr<GlobalParam> pages[2];
  std::string first;
  for (const auto& [machine, life] : {std::pair(0U, 1U), {0U, 2U}, {1U, 1U}}) {
    const bool is_restarted = life == 2, is_first = machine == 0 && life == 1;
    pages[machine] = nullptr;
    pages[machine] =
        ChatSessions::make({&param, directory, -1, &hub.add(machine, life), "kv"}, &watched)
            .value();
    const auto chat = role_over(*pages[machine], role, chat_model_plugin());
    FakeActivation asked = piece("Hello there, what is on the table?", "a");
    std::vector<StepOutcome> ended;
    chat->admit(asked);
    while (chat->busy()) chat->step(ended);
    REQUIRE(ended.size() == 1);
    REQUIRE(ended[0].result.ok());
    if (is_first) first = said(asked);
    CHECK(said(asked) == first);
    CHECK((watched.take().rows <= 8) == !is_first);  // the prompt's last page
    const PoolReport told = *pages[machine]->pool_report(std::chrono::milliseconds(100));
    REQUIRE((told.source == PoolReport::Source::both && told.host.has_value()));
    CHECK((told.disk_read >= 3) == is_restarted);
    CHECK((told.brought_pages >= 3) == (machine == 1));
    CHECK(told.host->raised == told.disk_read + told.brought_pages);
    pages[machine]->end_session("a");
  }
}

#ifdef SLUICE_EMULATED_TESTS
TEST_CASE("a GPU that fails a copy of pages says so in the report, and answers are the same") {
  for (const std::size_t call : {0, 4, 20}) {
    ChatWorld world(few, {}, {}, &cuda_texts());
    device::emulated::Fault fault{device::emulated::Fault::Of::copies, call};
    device::emulated::plan_fault(&fault);
    CHECK(talk(world) == told_on_cpu());
    device::emulated::plan_fault(nullptr);
    REQUIRE(fault.happened);
    CHECK(report(world).host->off == "the device was told to fail");
    for (const char* session : {"a", "b", "c"}) world.sessions->end_session(session);
    CHECK(world.pool().pages_free() == world.pool().pages());
  }
}

TEST_CASE("copies that take several forwards change nothing that is said") {
  for (const std::size_t questions_more : {0, 5}) {
    device::emulated::slow_copies(questions_more);
    ChatWorld world(few, {}, {}, &cuda_texts());
    CHECK(talk(world) == told_on_cpu());
    CHECK(report(world).host->raised > 0);
  }
  device::emulated::slow_copies(1);
}
#endif
