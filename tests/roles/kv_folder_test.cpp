// A `paged_kv` with a folder on a disk: opened with the pool, held by one, refused where it is of
// no use.
#include <catch2/catch.hpp>
#include <filesystem>

#include "chat_world.h"
#include "tests/directories.h"
#include "tests/scratch_folder.h"

using namespace sluice;

TEST_CASE("a paged_kv of a chat opens its folder, and one folder is one paged_kv's") {
  namespace fs = std::filesystem;
  const ScratchFolder folder;
  const std::string& scratch = folder.path();
  Catalog catalog;
  add_builtin_plugins(catalog);
  const std::string root = SLUICE_SOURCE_DIR;
  GlobalParamSpec spec;
  spec.name.text = "kv";
  spec.kind.text = "paged_kv";
  spec.pages = 16;
  spec.ssd = Name{scratch + "/pages", {}};
  const auto make = [&](const std::string& model) {
    return catalog.make_global_param({&spec, root + model});
  };
  {
    const auto held = make("/tests/golden/conversation_qwen");
    REQUIRE(held.ok());
    CHECK(fs::exists(scratch + "/pages/secret"));
    const auto second = make("/tests/golden/conversation_qwen");
    REQUIRE_FALSE(second.ok());
    CHECK_THAT(second.error().message,
               Catch::Matchers::Contains("in use by another paged_kv of this process"));
  }
  CHECK(make("/tests/golden/conversation_qwen").ok());
  for (const char* acts_or_draws : {"/tests/golden/pi0", "/tests/golden/dit"}) {
    const auto refused = make(acts_or_draws);
    REQUIRE_FALSE(refused.ok());
    CHECK_THAT(refused.error().message, Catch::Matchers::Contains("'kv' has `ssd`"));
  }
  spec.ssd_bytes = 4096;
  const auto small = make("/tests/golden/conversation_qwen");
  REQUIRE_FALSE(small.ok());
  CHECK_THAT(small.error().message, Catch::Matchers::Contains("are too few"));
}

TEST_CASE("an idle session gives up pages for what is read back for another, and for its answer") {
  const ScratchFolder folder;
  const std::string& scratch = folder.path();
  const std::string long_question = "What is on the table, and what is under it?";
  std::string want;
  std::size_t pages = 0;  // that one session takes
  for (const std::string& question :
       {std::string("Where to go now, said the cat to him?"), long_question}) {
    ChatWorld world(64, {}, scratch + (question == long_question ? "/pages" : "/other"));
    FakeActivation asked = piece(question, "a");
    world.chat->admit(asked);
    world.run();
    want = said(asked);
    pages = std::max(pages, world.pool().pages() - world.pool().pages_free());
  }
  {
    ChatWorld world(static_cast<std::int64_t>(pages), {}, scratch + "/pages");
    FakeActivation first = piece("Where to go now, said the cat to him?", "idle"),
                   second = piece(long_question, "a");
    world.chat->admit(first);
    world.run();
    REQUIRE(world.pool().pages_free() < pages / 2);
    world.chat->admit(second);
    world.run();
    for (const StepOutcome& outcome : world.ended) {
      INFO((outcome.result.ok() ? "" : outcome.result.error().message));
      CHECK(outcome.result.ok());
    }
    CHECK(said(second) == want);
    CHECK(static_cast<ChatSessions&>(*world.sessions).tier()->store().counts().read > 0);
  }
}

TEST_CASE("a call whose folder of pages has failed is told why, and later ones are not") {
  const ScratchFolder folder;
  const std::string pages = folder.path() + "/pages";
  ChatWorld world(64, {}, pages);
  std::vector<std::string> told;
  for (const char* session : {"a", "b", "c"}) {
    FakeActivation asked = piece(
        std::string("What is on the table of ") + session + ", and what is under it?", session);
    world.chat->admit(asked);
    world.run();
    CHECK_FALSE(said(asked).empty());
    told.insert(told.end(), asked.warnings.begin(), asked.warnings.end());
    if (*session == 'a') {
      CHECK(told.empty());
      std::filesystem::remove_all(pages);
    }
    // Writes end behind the forwards.
    const_cast<KvTier*>(static_cast<ChatSessions&>(*world.sessions).tier())->flush();
  }
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0],
             Catch::Matchers::StartsWith(
                 "pages of 'kv' are kept in memory alone for a while, not in " + pages + ": "));
}
