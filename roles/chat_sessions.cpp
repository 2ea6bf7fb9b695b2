#include "roles/chat_sessions.h"

#include <sys/random.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "roles/chat_options.h"
#include "roles/kv_pages.h"
#include "roles/saved_message.h"
#include "roles/tenant.h"

namespace sluice {

const RowsOrigin& HandedAnswer::origin() const {
  if (const auto* held = std::get_if<InEngine>(&state)) return held->generation.origin;
  if (const auto* held = std::get_if<InPages>(&state)) return held->generation.origin;
  if (const auto* given = std::get_if<Given>(&state)) return given->origin;
  return std::get<Dropped>(state).origin;
}

void HandedAnswer::drop(KvPages& pages, ModelEngine& engine) {
  if (auto* held = std::get_if<InEngine>(&state)) {
    engine.remove(held->task);
    pages.release(held->generation.sequence);
  } else if (auto* kept = std::get_if<InPages>(&state)) {
    pages.release(kept->generation.sequence);
  } else if (auto* given = std::get_if<Given>(&state)) {
    engine.remove(given->task);
    pages.withdraw(given->number);
  }
  state = Dropped{RowsOrigin(origin())};
}

namespace {

/// Whoever goes on with it has its prompt.
void drop_kept(HandedAnswer& handed, KvPages& pages) {
  auto* const kept = std::get_if<HandedAnswer::InPages>(&handed.state);
  if (kept == nullptr || !kept->generation.origin.pictures.empty()) return;
  pages.release(kept->generation.sequence);
  handed.state = HandedAnswer::Dropped{RowsOrigin(kept->generation.origin)};
}

/// What stands against a GPU before a model is read.
Result<void> check_on_cuda(const GlobalParamMaking& making, const TextDevice* cuda) {
  const GlobalParamSpec& spec = *making.spec;
  const std::string out = "; leave device out";
  if (spec.kv_dtype != Dtype::f32)
    return invalid_argument(
        "with device: cuda its pages are in the precision of its roles, not in a kv_dtype of their "
        "own" +
        out);
  if (spec.host_bytes == 0 && (spec.ssd.has_value() || making.peers != nullptr))
    return invalid_argument(
        "with device: cuda its pages go through the host's memory into a folder (ssd) and to other "
        "machines, and its host_bytes are 0: leave host_bytes out");
  if (cuda == nullptr)
    return Error{
        ErrorCode::unavailable,
        "its device: cuda cannot be had, this program was built without CUDA: build it where "
        "nvcc is found, or leave device out to run on the CPU"};
  if (const Result<void> found = cuda->find(); !found.ok())
    return Error{found.error().code, "its device: cuda cannot be had: " + found.error().message +
                                         out + " to run on the CPU"};
  return {};
}

}  // namespace

Result<std::unique_ptr<GlobalParam>> ChatSessions::make(const GlobalParamMaking& making,
                                                        const TextDevice* cuda) {
  if (making.model_directory.empty())
    return invalid_argument(
        "a paged_kv needs `model:`, the checkpoint whose keys and values it "
        "holds");
  const Result<Architecture> architecture = Architecture::load(making.model_directory);
  if (!architecture.ok()) return architecture.error();
  if (!architecture->text.has_value())
    return invalid_argument(making.model_directory + ": a model of family " +
                            std::string(to_string(architecture->family)) + " has no decoder");
  auto made = std::make_unique<ChatSessions>();
  made->spec_ = *making.spec;
  made->directory_ = making.model_directory;
  if (making.spec->device == EngineDevice::cuda) {
    if (Result<void> can = check_on_cuda(making, cuda); !can.ok()) return can.error();
    made->cuda_ = cuda;
    made->peers_ = making.peers;
    made->shared_name_ = making.shared_name;
    return std::unique_ptr<GlobalParam>(std::move(made));
  }
  Result<KeptPool> pool = open_pages(*architecture->text, making);
  if (!pool.ok()) return pool.error();
  made->kept_ = std::move(pool).value();
  return std::unique_ptr<GlobalParam>(std::move(made));
}

KvPages& ChatSessions::pages() {
  SLUICE_CHECK(cuda_ == nullptr || engine_ != nullptr, "a GPU's pages come with the engine");
  return engine_ != nullptr ? engine_->text->pages() : *kept_.pool;
}

/// Of a decoder that runs on a GPU only the embedding is kept on the host.
Result<Model> ChatSessions::open_model(const std::string& directory,
                                       kernels::WeightFormat format) const {
  if (cuda_ == nullptr) return open_beside(*kept_.pool, directory_, directory, format);
  if (Result<void> same = check_made_for(directory_, directory); !same.ok()) return same.error();
  return Model::open(directory, format, ModelParts::around_decoder);
}

Result<std::unique_ptr<TextEngine>> ChatSessions::text_of(const Model& model) {
  if (cuda_ == nullptr)
    return std::unique_ptr<TextEngine>(std::make_unique<CpuText>(model.text(), *kept_.pool));
  auto made = text_on_gpu(model);
  if (made.ok()) return made;
  return Error{made.error().code,
               "device: cuda of '" + spec_.name.text + "': " + made.error().message};
}

/// With the host's memory below it, whose keys its pages have.
Result<std::unique_ptr<TextEngine>> ChatSessions::text_on_gpu(const Model& model) {
  GlobalParamSpec below = spec_;
  below.kv_dtype = dtype_on_gpu(model.format());
  Result<KeptPool> host = make_host_pages(*model.architecture().text, below, peers_, shared_name_);
  if (!host.ok()) return host.error();
  auto made =
      cuda_->load(model.architecture(), model.file(), model.format(),
                  {static_cast<std::size_t>(spec_.page_tokens), pages_of(spec_), host->secret});
  if (made.ok()) kept_ = std::move(host).value();
  return made;
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
  Result<Model> model = open_model(directory, format);
  if (!model.ok()) return model.error();
  // Before the chat: that looks whether the files have changed behind all that was read of them.
  Result<std::unique_ptr<TextEngine>> text = text_of(*model);
  if (!text.ok()) return text.error();
  Result<ChatModel> chat = ChatModel::open(directory, std::move(model).value());
  if (!chat.ok()) return chat.error();
  if (!chat->chat().ok()) return chat->chat().error();
  if (kept_.peers != nullptr)
    if (Result<void> named = chat->name_by_content(directory); !named.ok()) return named.error();
  if (cuda_ != nullptr) chat->name_as_device();
  engine_ = std::make_unique<ChatEngine>(std::move(chat).value(), std::move(text).value(), format,
                                         options);
  if (cuda_ != nullptr && spec_.tenant_pages > 0)
    pages().limit_tenants(static_cast<std::size_t>(spec_.tenant_pages));
  PageCopies* const copies = engine_->text->copies();
  if (copies != nullptr && kept_.pool != nullptr)
    host_tier_ = std::make_unique<HostTier>(engine_->text->pages(), *copies, *kept_.pool,
                                            kept_.source(), kept_.peers != nullptr);
  SharedEngine::Turn turn(engine_->shared);
  turn.engine().use(source());
  engine_->hear_processes = [this, &engine = turn.engine()] { hear_processes(engine); };
  turn.engine().make_room = [this](const Planner& planner) { (void)make_room(planner, 0); };
  turn.engine().others_run = is_among_processes();  // between its turns a session has none then
  if (kept_.peers != nullptr && kept_.peers->preloads())
    preloader_ = std::make_unique<Preloader>(engine_->shared, turn.engine(), *kept_.peers);
  return engine_.get();
}

void ChatSession::drop_pending() {
  pending = {"user", "", {}};
  step = -1;
  ahead = {};
}

Result<void> ChatSession::ask() {
  const std::size_t turns = messages.size() / 2;  // a message and its answer
  const std::size_t kept = step < 0 ? turns : static_cast<std::size_t>(step);
  if (kept > turns) return chat::no_such_turn(kept, turns);
  messages.reserve(2 * kept + 2);
  replaced.assign(std::make_move_iterator(messages.begin() + static_cast<std::ptrdiff_t>(2 * kept)),
                  std::make_move_iterator(messages.end()));
  messages.resize(2 * kept);
  histories->cut(name, role, messages.size());
  pending.tenant = tenant.value_or("");
  messages.push_back(std::move(pending));
  asks = true;
  drop_pending();
  return {};
}

void ChatSession::answer(std::string text) {
  messages.push_back({"assistant", std::move(text), {}});
  asks = false;
  replaced.clear();
}

void ChatSession::unsay() {
  if (!std::exchange(asks, false)) return;
  messages.pop_back();
  histories->cut(name, role, messages.size());
  std::ranges::move(replaced, std::back_inserter(messages));
  replaced.clear();
}

ChatSession& ChatSessions::session(std::string_view name, std::string_view role) {
  if (ChatSession* found = find(name, role)) return *found;
  ChatSession& made = sessions_[{std::string(name), std::string(role)}];
  made.name = name;
  made.role = role;
  made.histories = &histories_;
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

/// Where others answer it is random: what is said with it comes from who was given it, and
/// not from any member.
std::uint64_t ChatSessions::next_number() {
  if (kept_.peers == nullptr && !is_among_processes()) return next_id_++;
  std::uint64_t number = 0;
  do SLUICE_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
  while (number == 0 || handed_.contains(number));
  return number;
}

std::uint64_t ChatSessions::hand_over(ChatSession& session, HandedAnswer answer) {
  session.handed = next_number();
  answer.until = clock() + handed_patience;
  if (auto* given = std::get_if<HandedAnswer::Given>(&answer.state)) given->number = session.handed;
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
    it->second.drop(pages(), engine);
    handed_.erase(it);
  }
  session.answering = false;
  session.unsay();
}

void ChatSessions::drop_late(ModelEngine& engine) {
  if (handed_.empty()) return;
  const Nanoseconds now = clock();
  for (auto& [number, handed] : handed_)
    if (now >= handed.until && !std::holds_alternative<HandedAnswer::Dropped>(handed.state))
      drop_late(handed, engine);
}

/// Of what another process was to go on with the pages come back, should it not have them. It may
/// answer all the same, so what it says is waited for.
void ChatSessions::drop_late(HandedAnswer& handed, ModelEngine& engine) {
  auto* const given = std::get_if<HandedAnswer::Given>(&handed.state);
  if (given == nullptr) return handed.drop(pages(), engine);
  engine.remove(given->task);
  (void)pages().accept(given->number);
  handed.until = std::numeric_limits<Nanoseconds>::max();
}

Result<void> ChatSessions::give(std::uint64_t number, Generation generation, ModelEngine& engine) {
  const auto it = handed_.find(number);
  SLUICE_CHECK(it != handed_.end(), "what is given away was handed over");
  const std::size_t said = generation.sequence.tokens();
  const bool is_done = generation.finish != Generation::Finish::none;
  const std::size_t left = std::min(generation.options.tokens_max - generation.tokens.size(),
                                    engine_->text->shape().positions_max - said);
  if (Result<void> had = kept_.pool->reserve(generation.sequence, is_done ? 0 : left); !had.ok())
    return had;
  if (Result<void> gone = pages().give(generation.sequence, number, encode_begun(generation));
      !gone.ok())
    return gone;
  engine.gave_away(std::get<HandedAnswer::Given>(it->second.state).task);
  return {};
}

bool ChatSessions::is_free(const Planner& planner, std::size_t more) {
  return has_room(pages(), source(), planner, more);
}

/// Whether the tenant may have `more` pages besides what it holds and what its tasks want.
bool ChatSessions::is_within_quota(const Planner& planner, const std::string& tenant,
                                   std::size_t more) {
  const std::optional<TenantRoom> room = pages().tenant_room(tenant);
  return !room.has_value() || planner.wanted_by(tenant) + more <= room->free();
}

/// Before every forward, whoever runs it. Where there are fewer pages than are waited for, sessions
/// that do not answer keep what they said, and find their pages again where nobody needed them.
/// Waited for is also what is still being read back, and `more`. False: there is no room all the
/// same.
bool ChatSessions::make_room(const Planner& planner, std::size_t more) {
  const auto fits = [&] { return is_free(planner, more); };
  if (planner.waiting() > 0) make_waiting_tenants_room(planner);
  if (fits()) return true;
  if (kept_.peers != nullptr && host_tier_ == nullptr) kept_.peers->drop_preload();
  for (auto& [name, session] : sessions_)
    if (!session.answering) pages().release(session.sequence);
  if (kept_.peers == nullptr || fits()) return fits();
  for (auto& [number, handed] : handed_) drop_kept(handed, pages());
  return fits();
}

/// Its sessions that do not answer give theirs up, where its tasks and `more` would be too many.
/// False: they are too many all the same.
bool ChatSessions::make_tenant_room(const Planner& planner, const std::string& tenant,
                                    std::size_t more) {
  const auto fits = [&] { return is_within_quota(planner, tenant, more); };
  if (fits()) return true;
  for (auto& [name, session] : sessions_)
    if (!session.answering && session.tenant == tenant) pages().release(session.sequence);
  for (auto& [number, handed] : handed_)
    if (handed.options.tenant == tenant) drop_kept(handed, pages());
  return fits();
}

/// Of each tenant some of whose tasks wait for pages.
void ChatSessions::make_waiting_tenants_room(const Planner& planner) {
  planner.for_tenants_who_wait(
      [&](const std::string& tenant) { (void)make_tenant_room(planner, tenant, 0); });
}

bool ChatSessions::go_on_behind(ChatSession& session, Generation& generation,
                                const Planner& planner, bool only_if_free) {
  KvSequence said = std::exchange(session.sequence, {});
  const std::size_t same = rows_in_common(
      session.origin,
      std::span(session.tokens).first(std::min(session.tokens.size(), said.tokens())),
      generation.origin, generation.history);
  pages().truncate(said, std::min(same, generation.history.size() - 1));
  const std::size_t answer = std::max<std::size_t>(generation.options.tokens_max, 1) - 1;
  const std::size_t all = std::min(generation.history.size() + answer,
                                   engine_->model.model().text().shape().positions_max);
  const std::size_t more = pages().missing(said, all - said.tokens());
  const std::string& tenant = generation.options.tenant;
  if (only_if_free && !(is_free(planner, more) && is_within_quota(planner, tenant, more))) {
    session.sequence = std::move(said);
    return false;
  }
  // Its own first: what they give up others need not.
  if (!make_tenant_room(planner, tenant, more) || !make_room(planner, more)) pages().release(said);
  (void)engine_->model.keep_prefix(pages(), std::move(said), session.origin, session.tokens,
                                   generation, false);
  return true;
}

void ChatSessions::hear_of(std::uint64_t number, ModelEngine& engine) {
  const auto it = handed_.find(number);
  if (it == handed_.end()) return;
  auto* const given = std::get_if<HandedAnswer::Given>(&it->second.state);
  if (given == nullptr) return;
  const Result<std::optional<attached::Text>> heard = pages().hear(number);
  if (!heard.ok() || !heard->has_value()) return;
  engine.remove(given->task);
  const SaidAnswer nothing{number, it->second.session, false, {}, {}};
  std::optional<SaidAnswer> said =
      decode_said(**heard, engine_->model.model().text().shape().vocabulary);
  const bool is_of_it = said && said->number == number && said->session == it->second.session;
  take_said(is_of_it ? *std::move(said) : nothing);
}

void ChatSessions::hear_processes(ModelEngine& engine) {
  if (!is_among_processes()) return;
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, handed] : handed_) numbers.push_back(number);
  for (const std::uint64_t number : numbers) hear_of(number, engine);
}

void ChatSessions::hear(ModelEngine& engine) {
  // Who waits for pages hears of those that come back; all else is heard when a session goes on.
  if (engine.planner().waiting() > 0) hear_processes(engine);
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
    session->unsay();
    session->failed_call = session->call;
    return;
  }
  session->origin = handed->origin();
  if (auto* kept = std::get_if<HandedAnswer::InPages>(&handed->state))
    session->sequence = std::move(kept->generation.sequence);
  session->tokens = std::move(handed->prompt);
  session->tokens.insert(session->tokens.end(), said.tokens.begin(), said.tokens.end());
  session->answer(std::move(said.text));
  // The machine that has said it tells it.
  histories_.said(handed->session, handed->role, session->messages, 1, session->messages.size(),
                  true);
}

std::optional<HistoryMark> ChatSessions::ask_history(const std::string& session,
                                                     const std::string& role, std::uint32_t life) {
  return histories_.ask(session, role, life);
}

Result<void> ChatSessions::settle_history(const std::string& session, const std::string& role,
                                          std::uint32_t life, const KeptHistory& kept,
                                          bool is_told) {
  SLUICE_CHECK(engine_ != nullptr, "no role over these pages was made");
  std::optional<ChatHistories::Settled> settled;
  Result<void> outcome;
  if (kept.is_there) settled = ChatHistories::Settled{kept.part.behind, {}};
  for (const HistoryRecord& record : kept.part.records) {
    const std::size_t at = settled ? settled->behind.count + settled->messages.size() : 0;
    Result<ChatMessage> message =
        settled ? restore_message(record, at % 2 == 0, engine_->model.model())
                : Error{ErrorCode::corrupt, "what was said in a session that has said nothing"};
    if (!message.ok()) {
      outcome = Error{ErrorCode::corrupt, message.error().message};
      settled = ChatHistories::Settled{};
      break;
    }
    settled->messages.push_back(std::move(message).value());
  }
  histories_.settle(session, role, life, std::move(settled), is_told);
  return outcome;
}

void ChatSessions::history_dropped(const std::string& session, const std::string& role) {
  histories_.dropped(session, role);
}

std::vector<ToldHistory> ChatSessions::take_history(const std::string& session) {
  return histories_.take(session);
}

bool ChatSessions::come_to(ChatSession& session, const Activation& piece, ModelEngine& engine) {
  const bool is_new = session.call != piece.call();
  const auto is_its = [&] {
    std::optional<std::string> whose = session.tenant;
    return !is_new || !whose.has_value() || go_on_as(piece, whose).ok();
  };
  const bool is_over = is_new && session.handed != 0 && is_its();
  if (is_over) hear_of(session.handed, engine);
  if (is_over && session.handed != 0) drop_handed(session, engine);
  if (!session.answering) go_on_as_settled(session);
  return is_its();
}

/// Where its home has said. Requires: it does not answer.
void ChatSessions::go_on_as_settled(ChatSession& session) {
  const std::string &of_session = session.name, &of_role = session.role;
  std::optional<ChatHistories::Settled> settled = histories_.take_settled(of_session, of_role);
  if (!settled) return;
  const std::size_t behind = settled->behind.count;
  const bool goes_on =
      session.messages.size() >= behind && histories_.is_at(of_session, of_role, settled->behind);
  session.messages.resize(goes_on ? behind : 0);
  if (goes_on) std::ranges::move(settled->messages, std::back_inserter(session.messages));
  if (!session.messages.empty()) session.tenant = session.messages.front().tenant;
  histories_.set(of_session, of_role, session.messages);
}

std::vector<std::pair<std::string, std::uint64_t>> ChatSessions::counts() const {
  return counts_of(kept_);
}

std::string ChatSessions::take_folder_trouble() {
  return folder_watch_.take_trouble(kept_, spec_.name.text);
}

void ChatSessions::count_prompt(std::size_t tokens, const Generation& done,
                                const ReadAhead& ahead) {
  const std::size_t kept = ahead.not_computed(std::min(done.tokens_kept, tokens));
  const std::size_t brought = std::min(done.tokens_read_back + ahead.brought, kept);
  const std::size_t of_folder = std::min(done.tokens_of_folder + ahead.of_folder, brought);
  prompts_.add(tokens, kept, brought, of_folder);
}

PoolReport ChatSessions::report() const {
  if (engine_ != nullptr) engine_->hear_processes();
  PoolReport report = unseen_pool(spec_.name.text, directory_);
  if (engine_ != nullptr) {
    add_pages(engine_->text->pages(), report);
  } else if (kept_.pool != nullptr) {
    add_pages(*kept_.pool, report);
  }
  if (cuda_ != nullptr) report.layout += ", on a GPU";
  add_source(kept_, report);
  add_host(host_tier_.get(), report);
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
  return view_.read(
      engine_ != nullptr ? &engine_->shared : nullptr, [this] { return report(); }, patience,
      unseen_pool(spec_.name.text, directory_));
}

void ChatSessions::end_session(std::string_view session) {
  if (engine_ == nullptr) return;  // nobody has said anything
  histories_.end_session(session);
  SharedEngine::Turn turn(engine_->shared);
  turn.was_used();
  for (auto it = handed_.begin(); it != handed_.end();) {
    const bool is_its = it->second.session == session;
    if (is_its) it->second.drop(pages(), turn.engine());
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
