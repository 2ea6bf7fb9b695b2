#include "roles/chat_sessions.h"

#include "roles/kv_pages.h"

namespace sluice {

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
  Result<KeptPool> pool = make_kept_pages(*architecture->text, *making.spec);
  if (!pool.ok()) return pool.error();
  auto made = std::make_unique<ChatSessions>();
  made->directory_ = making.model_directory;
  made->kept_ = std::move(pool).value();
  return std::unique_ptr<GlobalParam>(std::move(made));
}

Result<ChatEngine*> ChatSessions::engine(const std::string& directory, kernels::WeightFormat format,
                                         PlannerOptions options) {
  if (engine_ != nullptr && directory == directory_) {
    if (Result<void> same =
            check_same_use({engine_->format, engine_->step_rows}, {format, options.budget});
        !same.ok())
      return same.error();
    return engine_.get();
  }
  Result<Model> model = open_beside(pool(), directory_, directory, format);
  if (!model.ok()) return model.error();
  Result<ChatModel> chat = ChatModel::open(directory, std::move(model).value());
  if (!chat.ok()) return chat.error();
  if (!chat->chat().ok()) return chat->chat().error();
  engine_ = std::make_unique<ChatEngine>(std::move(chat).value(), pool(), format, options);
  SharedEngine::Turn turn(engine_->shared);
  turn.engine().use(kept_.tier.get());
  turn.engine().make_room = [this](const Planner& planner) { make_room(planner); };
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

std::uint64_t ChatSessions::hand_over(ChatSession& session, HandedAnswer answer) {
  session.handed = next_id_++;
  handed_.emplace(session.handed, std::move(answer));
  return session.handed;
}

std::optional<HandedAnswer> ChatSessions::take_handed(std::uint64_t number,
                                                      std::string_view session) {
  const auto it = handed_.find(number);
  if (it == handed_.end() || it->second.session != session) return std::nullopt;
  HandedAnswer taken = std::move(it->second);
  handed_.erase(it);
  if (ChatSession* whose = find(taken.session, taken.role)) whose->handed = 0;
  return taken;
}

void ChatSessions::drop_handed(ChatSession& session, ModelEngine& engine) {
  const auto it = handed_.find(std::exchange(session.handed, 0));
  if (it != handed_.end()) {
    engine.remove(it->second.task);
    handed_.erase(it);
  }
  session.answering = false;
  session.messages.pop_back();
}

/// Before every forward, whoever runs it. Where there are fewer pages than are waited for, by those
/// whose pages are still being read back too: sessions that do not answer keep what they said, and
/// find their pages again where nobody needed them.
void ChatSessions::make_room(const Planner& planner) {
  const std::size_t free = pool().pages_free();
  const std::size_t awaited = tier() != nullptr ? tier()->pages_awaited() : 0;
  if (awaited <= free && planner.fits(static_cast<std::uint32_t>(free - awaited))) return;
  for (auto& [name, session] : sessions_)
    if (!session.answering) pool().release(session.sequence);
}

void ChatSessions::end_session(std::string_view session) {
  if (engine_ == nullptr) return;  // nobody has said anything
  SharedEngine::Turn turn(engine_->shared);
  turn.was_used();
  std::erase_if(handed_, [&](const auto& one) {
    if (one.second.session != session) return false;
    turn.engine().remove(one.second.task);
    return true;
  });
  std::erase_if(sessions_, [&](const auto& one) { return one.first.first == session; });
}

}  // namespace sluice
