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
        "a paged_kv needs `model:`, the checkpoint whose keys and values it "
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
  made->directory_ = making.model_directory;
  made->pool_ = std::make_unique<KvPool>(
      KvShape{text.layers, text.block.kv_heads * text.block.head_dim, page_tokens}, pages);
  return std::unique_ptr<GlobalParam>(std::move(made));
}

Result<ChatEngine*> ChatSessions::engine(const std::string& directory, kernels::WeightFormat format,
                                         PlannerOptions options) {
  if (directory != directory_)
    return invalid_argument("its model is " + directory + ", its paged_kv is made for " +
                            directory_);
  if (engine_ != nullptr) {
    if (engine_->format != format)
      return invalid_argument("another role over the same paged_kv has another precision");
    if (engine_->step_rows != options.budget)
      return invalid_argument("another role over the same paged_kv has other step_tokens");
    return engine_.get();
  }
  Result<Architecture> architecture = Architecture::load(directory);
  if (!architecture.ok()) return architecture.error();
  Result<SafetensorsFile> file = open_weights(directory);
  if (!file.ok()) return file.error();
  // What does not fit the machine, together with the pages that are there already, is refused.
  const std::size_t tokens = pool_->pages() * pool_->shape().page_tokens;
  const MemoryPlan plan = plan_memory(*file, *architecture, tokens, format);
  if (Result<void> fits = plan.check(); !fits.ok()) return fits.error();
  Result<Model> model =
      Model::load(std::move(architecture).value(), std::move(file).value(), format);
  if (!model.ok()) return model.error();
  Result<ChatModel> chat = ChatModel::open(directory, std::move(model).value());
  if (!chat.ok()) return chat.error();
  if (!chat->chat().ok()) return chat->chat().error();
  engine_ = std::make_unique<ChatEngine>(std::move(chat).value(), *pool_, format, options);
  return engine_.get();
}

ChatSession& ChatSessions::session(std::string_view name, std::string_view role) {
  if (ChatSession* found = find(name, role)) return *found;
  ChatSession& made = sessions_[{std::string(name), std::string(role)}];
  made.id = next_id_++;
  return made;
}

ChatSession* ChatSessions::find(std::string_view name, std::string_view role) {
  const auto it = sessions_.find({std::string(name), std::string(role)});
  return it != sessions_.end() ? &it->second : nullptr;
}

void ChatSessions::release_idle() {
  for (auto& [name, session] : sessions_)
    if (!session.answering) pool_->release(session.sequence);
}

void ChatSessions::end_session(std::string_view session) {
  if (engine_ == nullptr) return;  // nobody has said anything
  SharedEngine::Turn turn(engine_->shared);
  turn.was_used();
  std::erase_if(sessions_, [&](const auto& one) { return one.first.first == session; });
}

}  // namespace sluice
