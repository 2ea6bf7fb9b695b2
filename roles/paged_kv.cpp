#include "roles/paged_kv.h"

#include "engine/tasks/chat_model.h"
#include "roles/kv_pages.h"

namespace sluice {

Result<std::unique_ptr<GlobalParam>> PagedKv::make(const GlobalParamMaking& making) {
  Result<KvPlace> place = make_place(making);
  if (!place.ok()) return place.error();
  auto made = std::make_unique<PagedKv>();
  made->place_ = std::move(place).value();
  return std::unique_ptr<GlobalParam>(std::move(made));
}

Result<DrawingHost*> PagedKv::host(const std::string& directory, const EngineOptions& options) {
  const auto make = [&](Model model) -> Result<std::unique_ptr<DrawingHost>> {
    const Architecture& architecture = model.architecture();
    if (!architecture.flow.has_value() || !architecture.turns.has_value())
      return invalid_argument(directory + ": a model of the family " +
                              std::string(to_string(architecture.family)) + " does not draw");
    Result<Tokenizer> tokenizer = open_tokenizer(directory);
    if (!tokenizer.ok()) return tokenizer.error();
    return std::make_unique<DrawingHost>(std::move(model), std::move(tokenizer).value(), pool(),
                                         options.planner);
  };
  return host_over(host_, pool(), place_.directory, directory,
                   {options.format, options.planner.budget}, make);
}

Conversation& PagedKv::conversation(std::string_view session) {
  const auto it = conversations_.find(session);
  const bool is_new = it == conversations_.end();
  Conversation& found = is_new ? conversations_[std::string(session)] : it->second;
  if (is_new) found.id = next_id_++;
  found.used = engine_clock();
  return found;
}

bool PagedKv::give_back(std::string_view session, std::uint64_t id, KvSequence sequence) {
  const auto it = conversations_.find(session);
  if (it == conversations_.end() || it->second.id != id) {
    pool().release(sequence);
    return false;
  }
  it->second.sequence = std::move(sequence);
  it->second.is_answering = false;
  return true;
}

void PagedKv::end_session(std::string_view session) {
  if (host_ == nullptr) return;  // nobody has said anything
  SharedEngine::Turn turn(host_->shared);
  turn.was_used();
  const auto it = conversations_.find(session);
  if (it == conversations_.end()) return;
  conversations_.erase(it);
}

PoolReport PagedKv::report() const {
  PoolReport report;
  report.name = place_.name;
  report.model = place_.directory;
  add_pages(*place_.pool, report);
  const Nanoseconds now = engine_clock();
  report.sessions = conversations_.size();
  for (const auto& [name, said] : conversations_) {
    if (report.session_list.size() == PoolReport::sessions_most) break;
    const std::size_t kept = said.sequence.tokens();
    report.session_list.push_back({name, "", kept + said.unwritten.size(), kept, said.is_answering,
                                   (now - said.used) / 1'000'000});
  }
  return report;
}

std::optional<PoolReport> PagedKv::pool_report(std::chrono::milliseconds patience) const {
  PoolReport unseen;
  unseen.name = place_.name;
  unseen.model = place_.directory;
  return view_.read(
      host_ != nullptr ? &host_->shared : nullptr, [this] { return report(); }, patience,
      std::move(unseen));
}

Result<PagedKv*> paged_kv_of(const RoleMaking& making) {
  for (GlobalParam* param : making.global_params)
    if (auto* kv = dynamic_cast<PagedKv*>(param)) return kv;
  return invalid_argument("role '" + making.role->name.text +
                          "' needs a paged_kv of a model that draws among its global_params");
}

}  // namespace sluice
