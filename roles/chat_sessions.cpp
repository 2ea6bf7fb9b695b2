#include "roles/chat_sessions.h"

#include "engine/family/memory_plan.h"

namespace sluice {

namespace {

/// Tokens for which there is room when the workflow does not say how many pages.
constexpr std::size_t default_tokens = 16384;

}  // namespace

Result<std::unique_ptr<GlobalParam>> ChatSessions::make(const GlobalParamMaking& making) {
  if (making.model_directory.empty())
    return invalid_argument(
        "a chat_kv needs `model:`, the checkpoint whose keys and values it "
        "holds");
  const Result<Architecture> architecture = Architecture::load(making.model_directory);
  if (!architecture.ok()) return architecture.error();
  if (!architecture->text.has_value())
    return invalid_argument(making.model_directory + ": a model of family " +
                            std::string(to_string(architecture->family)) + " has no decoder");
  const DecoderShape& text = *architecture->text;
  const auto page_tokens = static_cast<std::size_t>(making.spec->page_tokens);
  const std::size_t pages = making.spec->pages > 0 ? static_cast<std::size_t>(making.spec->pages)
                                                   : default_tokens / page_tokens + 1;
  const MemoryPlan plan{0, kv_bytes(text) * static_cast<double>(pages * page_tokens),
                        machine_bytes(), pages * page_tokens};
  if (Result<void> fits = plan.check(); !fits.ok()) return fits.error();
  auto made = std::make_unique<ChatSessions>();
  made->pool_ = std::make_unique<KvPool>(
      KvShape{text.layers, text.block.kv_heads * text.block.head_dim, page_tokens}, pages);
  return std::unique_ptr<GlobalParam>(std::move(made));
}

ChatSession& ChatSessions::session(std::string_view name) {
  const auto it = sessions_.find(name);
  return it != sessions_.end() ? it->second : sessions_[std::string(name)];
}

ChatSession* ChatSessions::find(std::string_view name) {
  const auto it = sessions_.find(name);
  return it != sessions_.end() ? &it->second : nullptr;
}

void ChatSessions::end_session(std::string_view session) {
  const auto held = lock();
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  pool_->truncate(it->second.sequence, 0);
  sessions_.erase(it);
}

}  // namespace sluice
