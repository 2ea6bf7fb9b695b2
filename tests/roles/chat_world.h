// A chat_model over a tiny checkpoint and pages of its own, stepped by hand.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_activation.h"
#include "roles/catalog.h"
#include "roles/chat_role.h"
#include "roles/chat_sessions.h"
#include "tests/directories.h"

namespace sluice {

inline const std::string directory =
    std::string(SLUICE_SOURCE_DIR) + "/tests/golden/conversation_qwen";

/// Of the checkpoint in `directory`, over these pages.
inline std::unique_ptr<SteppedRole> role_over(GlobalParam& pages, const RoleSpec& role,
                                              const Plugin& plugin) {
  RoleMaking making;
  making.role = &role;
  making.model_directory = directory;
  making.global_params = {&pages};
  return std::get<std::unique_ptr<SteppedRole>>(plugin.make(making).value());
}

/// `ssd`: the folder of its pages; empty: none. `cuda`: the GPU of its decoder; null: the CPU.
/// `host_bytes`: below that one's pages; none: what is usual. `tenant_pages`: that any one tenant
/// may have; 0: all.
struct ChatWorld {
  std::string model;
  GlobalParamSpec param;
  RoleSpec role;
  std::unique_ptr<GlobalParam> sessions;
  std::unique_ptr<SteppedRole> chat;
  std::vector<StepOutcome> ended;

  explicit ChatWorld(std::int64_t pages = 64, std::vector<OptionSpec> options = {},
                     const std::string& ssd = {}, const TextDevice* cuda = nullptr,
                     std::string checkpoint = directory,
                     std::optional<std::int64_t> host_bytes = {}, std::int64_t tenant_pages = 0)
      : model(std::move(checkpoint)) {
    param.name.text = "kv";
    param.page_tokens = 8;
    param.pages = pages;
    if (!ssd.empty()) param.ssd = Name{ssd, {}};
    if (cuda != nullptr) param.device = EngineDevice::cuda;
    param.host_bytes = host_bytes;
    param.tenant_pages = tenant_pages;
    sessions = ChatSessions::make({&param, model}, cuda).value();
    role.options = std::move(options);
    role.options.push_back({{"precision", {}}, {"exact", {}}});
    RoleMaking making;
    making.role = &role;
    making.model_directory = model;
    making.global_params = {sessions.get()};
    auto made = chat_model_plugin().make(making);
    INFO((made.ok() ? "" : made.error().message));
    REQUIRE(made.ok());
    chat = std::get<std::unique_ptr<SteppedRole>>(std::move(made).value());
  }
  KvPages& pool() { return static_cast<ChatSessions&>(*sessions).pages(); }
  void run() {
    while (chat->busy()) chat->step(ended);
  }
};

/// A message, or a piece of one that is not the last.
inline FakeActivation piece(const std::string& text, const std::string& session, bool last = true,
                            std::int64_t tokens = 12) {
  FakeActivation made("answer", session);
  auto* payload = new Payload;
  payload->type = ValueType::text;
  payload->text = text;
  payload->attributes = {{"generate", last ? 1 : 0}, {"max_tokens", tokens}};
  made.give("text", PayloadRef(payload));
  return made;
}

inline std::string said(const FakeActivation& activation) {
  std::string text;
  for (const auto& [field, payload] : activation.frames) text += payload->text;
  return text;
}

}  // namespace sluice
