#include "roles/paged_kv.h"

#include <sys/random.h>

#include <algorithm>

#include "engine/tasks/chat_model.h"
#include "roles/kv_pages.h"

namespace sluice {

void WrittenRows::forget_unwritten() {
  SLUICE_CHECK(history.size() >= sequence.tokens(), "each row has a token");
  history.resize(sequence.tokens());
  origin.pictures.resize(static_cast<std::size_t>(std::ranges::count(history, numbers_token)));
}

void WrittenRows::cut(KvPages& pages, std::size_t rows) {
  pages.truncate(sequence, rows);
  forget_unwritten();
}

Result<std::unique_ptr<GlobalParam>> PagedKv::make(const GlobalParamMaking& making) {
  const Result<Architecture> architecture = Architecture::load(making.model_directory);
  if (!architecture.ok()) return architecture.error();
  Result<KeptPool> pool = open_pages(*architecture->text, making);
  if (!pool.ok()) return pool.error();
  auto made = std::make_unique<PagedKv>();
  made->name_ = making.spec->name.text;
  made->directory_ = making.model_directory;
  made->kept_ = std::move(pool).value();
  return std::unique_ptr<GlobalParam>(std::move(made));
}

Result<DrawingHost*> PagedKv::host(const std::string& directory, const EngineOptions& options) {
  const auto make = [&](Model model) { return make_host(std::move(model), options.planner); };
  return host_over(host_, pool(), directory_, directory, {options.format, options.planner.budget},
                   make);
}

Result<std::unique_ptr<DrawingHost>> PagedKv::make_host(Model model,
                                                        const PlannerOptions& options) {
  const Architecture& architecture = model.architecture();
  if (!architecture.flow.has_value() || !architecture.turns.has_value())
    return invalid_argument(directory_ + ": a model of the family " +
                            std::string(to_string(architecture.family)) + " does not draw");
  Result<Tokenizer> tokenizer = open_tokenizer(directory_);
  if (!tokenizer.ok()) return tokenizer.error();
  Result<std::string> identity = rows_identity(directory_, model, kept_.peers != nullptr);
  if (!identity.ok()) return identity.error();
  auto made = std::make_unique<DrawingHost>(std::move(model), std::move(tokenizer).value(),
                                            std::move(identity).value(), pool(), options);
  SharedEngine::Turn turn(made->shared);
  turn.engine().use(kept_.source());
  if (kept_.peers == nullptr) return made;
  turn.engine().make_room = [this](const Planner& planner) {
    if (!has_room(pool(), kept_.source(), planner, 0)) kept_.peers->drop_preload();
  };
  if (kept_.peers->preloads())
    preloader_ = std::make_unique<Preloader>(made->shared, turn.engine(), *kept_.peers);
  return made;
}

Conversation& PagedKv::conversation(std::string_view session) {
  const auto it = conversations_.find(session);
  const bool is_new = it == conversations_.end();
  Conversation& found = is_new ? conversations_[std::string(session)] : it->second;
  if (is_new) found.id = next_id_++;
  found.used = engine_clock();
  return found;
}

bool PagedKv::is_of(std::string_view session, std::uint64_t id) const {
  const auto it = conversations_.find(session);
  return it != conversations_.end() && it->second.id == id;
}

bool PagedKv::give_back(std::string_view session, std::uint64_t id, Generation done) {
  if (!is_of(session, id)) return false;
  Conversation& conversation = conversations_.find(session)->second;
  conversation.written = {std::move(done.sequence), std::move(done.history),
                          std::move(done.origin)};
  conversation.written.forget_unwritten();
  conversation.is_answering = false;
  return true;
}

void PagedKv::count_prompt(const Conversation& conversation, std::size_t rows) {
  const ReadAhead& prompt = conversation.prompt;
  prompts_.add(rows, rows - prompt.computed, prompt.brought, prompt.of_folder);
}

Result<std::uint64_t> PagedKv::offer(Conversation& conversation) {
  withdraw(conversation);
  if (!pool().is_attached()) return conversation.offered = next_id_++;
  std::uint64_t number = 0;
  do SLUICE_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
  while (number == 0);
  if (Result<void> done = pool().offer(conversation.written.sequence, number); !done.ok())
    return done.error();
  return conversation.offered = number;
}

void PagedKv::withdraw(Conversation& conversation) {
  const std::uint64_t number = std::exchange(conversation.offered, 0);
  if (number != 0 && pool().is_attached()) pool().withdraw(number);
}

Result<KvSequence> PagedKv::prompt_of(std::string_view session, std::size_t length,
                                      std::uint64_t offered) {
  const auto stale = [&](std::size_t here) {
    return Error{ErrorCode::stale,
                 "the session has moved on since the drawing was asked for, or that was written "
                 "into another paged_kv (" +
                     std::to_string(here) + " tokens here, the prompt had " +
                     std::to_string(length) + ")"};
  };
  if (offered != 0 && pool().is_attached()) {
    Result<std::optional<KvSequence>> taken = pool().accept(offered);
    if (!taken.ok()) return taken.error();
    if (!taken->has_value()) return stale(0);
    if ((*taken)->tokens() != length) return stale((*taken)->tokens());
    return *std::move(*taken);
  }
  const Conversation& said = conversation(session);
  // Another turn may be as long.
  const bool is_other = offered != 0 && offered != said.offered;
  const KvSequence& written = said.written.sequence;
  if (length == 0 || said.is_answering || written.tokens() != length || is_other)
    return stale(written.tokens());
  return pool().fork(written);
}

void PagedKv::end_session(std::string_view session) {
  if (host_ == nullptr) return;  // nobody has said anything
  SharedEngine::Turn turn(host_->shared);
  turn.was_used();
  const auto it = conversations_.find(session);
  if (it == conversations_.end()) return;
  withdraw(it->second);
  conversations_.erase(it);
}

PoolReport PagedKv::report() const {
  PoolReport report = unseen_pool(name_, directory_);
  add_pages(*kept_.pool, report);
  add_source(kept_, report);
  prompts_.show(report);
  const Nanoseconds now = engine_clock();
  report.sessions = conversations_.size();
  for (const auto& [name, said] : conversations_) {
    if (report.session_list.size() == PoolReport::sessions_most) break;
    const std::size_t kept = said.written.sequence.tokens();
    report.session_list.push_back({name, "", kept + said.unwritten.size(), kept, said.is_answering,
                                   (now - said.used) / 1'000'000});
  }
  return report;
}

std::optional<PoolReport> PagedKv::pool_report(std::chrono::milliseconds patience) const {
  return view_.read(
      host_ != nullptr ? &host_->shared : nullptr, [this] { return report(); }, patience,
      unseen_pool(name_, directory_));
}

Result<PagedKv*> paged_kv_of(const RoleMaking& making) {
  for (GlobalParam* param : making.global_params)
    if (auto* kv = dynamic_cast<PagedKv*>(param)) return kv;
  return invalid_argument("role '" + making.role->name.text +
                          "' needs a paged_kv of a model that draws among its global_params");
}

}  // namespace sluice
