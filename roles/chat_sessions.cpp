#include "roles/chat_sessions.h"

#include <sys/random.h>

#include <algorithm>

#include "roles/kv_pages.h"

namespace sluice {

const RowsOrigin& HandedAnswer::origin() const {
  if (const auto* held = std::get_if<InEngine>(&state)) return held->generation.origin;
  if (const auto* held = std::get_if<InPages>(&state)) return held->generation.origin;
  return std::get<Dropped>(state).origin;
}

void HandedAnswer::drop(KvPool& pool, ModelEngine& engine) {
  if (auto* held = std::get_if<InEngine>(&state)) {
    engine.remove(held->task);
    pool.release(held->generation.sequence);
  } else if (auto* kept = std::get_if<InPages>(&state)) {
    pool.release(kept->generation.sequence);
  }
  state = Dropped{RowsOrigin(origin())};
}

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
  Result<KeptPool> pool =
      make_kept_pages(*architecture->text, *making.spec, making.peers, making.shared_name);
  if (!pool.ok()) return pool.error();
  auto made = std::make_unique<ChatSessions>();
  made->name_ = making.spec->name.text;
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
  if (kept_.peers != nullptr) chat->name_by_content(directory);
  engine_ = std::make_unique<ChatEngine>(std::move(chat).value(), pool(), format, options);
  SharedEngine::Turn turn(engine_->shared);
  turn.engine().use(kept_.source());
  turn.engine().make_room = [this](const Planner& planner) { (void)make_room(planner, 0); };
  return engine_.get();
}

ChatSession& ChatSessions::session(std::string_view name, std::string_view role) {
  if (ChatSession* found = find(name, role)) return *found;
  ChatSession& made = sessions_[{std::string(name), std::string(role)}];
  made.id = next_id_++;
  made.used = clock();
  return made;
}

ChatSession* ChatSessions::find(std::string_view name, std::string_view role) {
  const auto it = sessions_.find({std::string(name), std::string(role)});
  if (it == sessions_.end()) return nullptr;
  it->second.used = clock();
  return &it->second;
}

/// Where other machines answer it is random: what is said with it comes from who was given it, and
/// not from any member.
std::uint64_t ChatSessions::next_number() {
  if (kept_.peers == nullptr) return next_id_++;
  std::uint64_t number = 0;
  do SLUICE_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
  while (number == 0 || handed_.contains(number));
  return number;
}

std::uint64_t ChatSessions::hand_over(ChatSession& session, HandedAnswer answer) {
  session.handed = next_number();
  answer.until = clock() + handed_patience;
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
    it->second.drop(pool(), engine);
    handed_.erase(it);
  }
  session.answering = false;
  session.messages.pop_back();
}

void ChatSessions::drop_late(ModelEngine& engine) {
  if (handed_.empty()) return;
  const Nanoseconds now = clock();
  for (auto& [number, handed] : handed_)
    if (now >= handed.until && !std::holds_alternative<HandedAnswer::Dropped>(handed.state))
      handed.drop(pool(), engine);
}

/// Before every forward, whoever runs it. Where there are fewer pages than are waited for, sessions
/// that do not answer keep what they said, and find their pages again where nobody needed them.
/// Waited for is also what is still being read back, and `more`. False: there is no room all the
/// same.
bool ChatSessions::make_room(const Planner& planner, std::size_t more) {
  const std::size_t awaited =
      more + (kept_.source() != nullptr ? kept_.source()->pages_awaited() : 0);
  const auto fits = [&] {
    const std::size_t free = pool().pages_free();
    return awaited <= free && planner.fits(static_cast<std::uint32_t>(free - awaited));
  };
  if (fits()) return true;
  for (auto& [name, session] : sessions_)
    if (!session.answering) pool().release(session.sequence);
  if (kept_.peers == nullptr || fits()) return fits();
  // Whoever goes on with these has their prompts.
  for (auto& [number, handed] : handed_) {
    auto* const kept = std::get_if<HandedAnswer::InPages>(&handed.state);
    if (kept == nullptr || !kept->generation.origin.pictures.empty()) continue;
    pool().release(kept->generation.sequence);
    handed.state = HandedAnswer::Dropped{RowsOrigin(kept->generation.origin)};
  }
  return fits();
}

void ChatSessions::go_on_behind(ChatSession& session, Generation& generation,
                                const Planner& planner) {
  const ChatModel& model = engine_->model;
  KvSequence said = std::exchange(session.sequence, {});
  session.answering = true;
  const std::size_t same = rows_in_common(
      session.origin,
      std::span(session.tokens).first(std::min(session.tokens.size(), said.tokens())),
      generation.origin, generation.history);
  pool().truncate(said, std::min(same, generation.history.size() - 1));
  const std::size_t answer = std::max<std::size_t>(generation.options.tokens_max, 1) - 1;
  const std::size_t all =
      std::min(generation.history.size() + answer, model.model().text().shape().positions_max);
  const std::size_t more = pool().missing(said, all - said.tokens());
  if (!make_room(planner, more)) pool().release(said);
  (void)model.keep_prefix(pool(), std::move(said), session.origin, session.tokens, generation,
                          false);
}

void ChatSessions::hear() {
  if (kept_.peers == nullptr) return;
  for (const KvPeers::Word& word : kept_.peers->take_words())
    if (auto said = decode_said(word.text, engine_->model.model().text().shape().vocabulary))
      take_said(*std::move(said));
}

/// As if it had been said here. What nobody waits for is dropped.
void ChatSessions::take_said(SaidAnswer said) {
  std::optional<HandedAnswer> handed = take_handed(said.number, said.session);
  if (!handed.has_value()) return;
  ChatSession* const session = find(handed->session, handed->role);
  if (session == nullptr || session->id != handed->session_id) return;
  session->answering = false;
  if (!said.ok) {
    session->messages.pop_back();
    session->failed_call = session->call;
    return;
  }
  session->origin = handed->origin();
  if (auto* kept = std::get_if<HandedAnswer::InPages>(&handed->state))
    session->sequence = std::move(kept->generation.sequence);
  session->tokens = std::move(handed->prompt);
  session->tokens.insert(session->tokens.end(), said.tokens.begin(), said.tokens.end());
  session->messages.push_back({"assistant", std::move(said.text), {}});
}

std::vector<std::pair<std::string, std::uint64_t>> ChatSessions::counts() const {
  if (kept_.peers == nullptr) return {};
  const KvPeers::Counts counts = kept_.peers->counts();
  std::vector<std::pair<std::string, std::uint64_t>> list{
      {"pulled_pages", counts.pulled},
      {"pulled_bytes", counts.pulled_bytes},
      {"not_worth", counts.not_worth},
      {"stale_messages", counts.stale},
      {"served_pages", counts.served.pages},
      {"served_bytes", counts.served.bytes},
      {"served_short", counts.served.missing},
      {"served_busy", counts.served.busy},
      {"refused_messages", counts.served.refused}};
  for (std::size_t end = 0; end < pull_ends; ++end)
    list.emplace_back("pulls_" + std::string(to_string(static_cast<PullEnd>(end))),
                      counts.ends[end]);
  return list;
}

void ChatSessions::count_prompt(std::size_t tokens, const Generation& done) {
  const std::size_t kept = std::min(done.tokens_kept, tokens);
  prompts_.add(tokens, kept, std::min(done.tokens_read_back, kept));
}

PoolReport ChatSessions::report() const {
  PoolReport report;
  report.name = name_;
  report.model = directory_;
  add_pages(*kept_.pool, report);
  add_source(kept_, report);
  prompts_.show(report);
  const Nanoseconds now = clock();
  report.sessions = sessions_.size();
  for (const auto& [name, session] : sessions_) {
    if (report.session_list.size() == PoolReport::sessions_most) break;
    const std::size_t kept = session.sequence.tokens();
    report.session_list.push_back({name.first, name.second, std::max(session.tokens.size(), kept),
                                   kept, session.answering, (now - session.used) / 1'000'000});
  }
  return report;
}

std::optional<PoolReport> ChatSessions::pool_report(std::chrono::milliseconds patience) const {
  PoolReport unseen;
  unseen.name = name_;
  unseen.model = directory_;
  return view_.read(
      engine_ != nullptr ? &engine_->shared : nullptr, [this] { return report(); }, patience,
      std::move(unseen));
}

void ChatSessions::end_session(std::string_view session) {
  if (engine_ == nullptr) return;  // nobody has said anything
  SharedEngine::Turn turn(engine_->shared);
  turn.was_used();
  for (auto it = handed_.begin(); it != handed_.end();) {
    const bool is_its = it->second.session == session;
    if (is_its) it->second.drop(pool(), turn.engine());
    it = is_its ? handed_.erase(it) : std::next(it);
  }
  std::erase_if(sessions_, [&](const auto& one) { return one.first.first == session; });
}

ChatSessions* chat_sessions_of(const RoleMaking& making) {
  for (GlobalParam* param : making.global_params)
    if (auto* found = dynamic_cast<ChatSessions*>(param)) return found;
  return nullptr;
}

}  // namespace sluice
