// A `paged_kv` with a folder on a disk: opened with the pool, held by one, refused where it is of
// no use.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "fake_activation.h"
#include "roles/catalog.h"
#include "roles/chat_role.h"
#include "roles/chat_sessions.h"

using namespace sluice;

namespace {

const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/conversation_qwen";

struct World {
  GlobalParamSpec param;
  RoleSpec role;
  std::unique_ptr<GlobalParam> sessions;
  std::unique_ptr<SteppedRole> chat;
  std::vector<StepOutcome> ended;

  explicit World(std::int64_t pages, const std::string& folder) {
    param.page_tokens = 8;
    param.pages = pages;
    if (!folder.empty()) param.ssd = Name{folder, {}};
    sessions = ChatSessions::make({&param, directory}).value();
    role.options.push_back({{"precision", {}}, {"exact", {}}});
    RoleMaking making;
    making.role = &role;
    making.model_directory = directory;
    making.global_params = {sessions.get()};
    auto made = chat_model_plugin().make(making);
    INFO((made.ok() ? "" : made.error().message));
    REQUIRE(made.ok());
    chat = std::get<std::unique_ptr<SteppedRole>>(std::move(made).value());
  }
  KvPool& pool() { return static_cast<ChatSessions&>(*sessions).pool(); }
  void run() {
    while (chat->busy()) chat->step(ended);
  }
};

FakeActivation piece(const std::string& text, const std::string& session, bool last = true,
                     std::int64_t tokens = 12) {
  FakeActivation made("answer", session);
  auto* payload = new Payload;
  payload->type = ValueType::text;
  payload->text = text;
  payload->attributes = {{"generate", last ? 1 : 0}, {"max_tokens", tokens}};
  made.give("text", PayloadRef(payload));
  return made;
}

std::string said(const FakeActivation& activation) {
  std::string text;
  for (const auto& [field, payload] : activation.frames) text += payload->text;
  return text;
}

}  // namespace

TEST_CASE("a paged_kv of a chat opens its folder, and one folder is one paged_kv's") {
  namespace fs = std::filesystem;
  std::string scratch = (fs::temp_directory_path() / "kv-XXXXXX").string();
  REQUIRE(::mkdtemp(scratch.data()) != nullptr);
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
    CHECK_THAT(second.error().message, Catch::Matchers::Contains("another process keeps"));
  }
  CHECK(make("/tests/golden/conversation_qwen").ok());
  const auto draws = make("/models/scenes");
  REQUIRE_FALSE(draws.ok());
  CHECK_THAT(draws.error().message, Catch::Matchers::Contains("'kv' has `ssd`"));
  spec.ssd_bytes = 4096;
  const auto small = make("/tests/golden/conversation_qwen");
  REQUIRE_FALSE(small.ok());
  CHECK_THAT(small.error().message, Catch::Matchers::Contains("are too few"));
  fs::remove_all(scratch);
}

TEST_CASE("an idle session gives up pages for what is read back for another, and for its answer") {
  namespace fs = std::filesystem;
  std::string scratch = (fs::temp_directory_path() / "chat-XXXXXX").string();
  REQUIRE(::mkdtemp(scratch.data()) != nullptr);
  const std::string long_question = "What is on the table, and what is under it?";
  std::string want;
  std::size_t pages = 0;  // that one session takes
  for (const std::string& question :
       {std::string("Where to go now, said the cat to him?"), long_question}) {
    World world(64, scratch + (question == long_question ? "/pages" : "/other"));
    FakeActivation asked = piece(question, "a");
    world.chat->admit(asked);
    world.run();
    want = said(asked);
    pages = std::max(pages, world.pool().pages() - world.pool().pages_free());
  }
  {
    World world(static_cast<std::int64_t>(pages), scratch + "/pages");
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
  fs::remove_all(scratch);
}
