#include "roles/policy_kv.h"

#include "engine/tasks/chat_model.h"
#include "roles/check_model.h"
#include "roles/kv_pages.h"

namespace sluice {

namespace {

/// PaliGemma's, which no configuration of a policy names.
std::vector<std::int32_t> end_tokens_of(const std::string& directory,
                                        const Result<Tokenizer>& tokenizer) {
  constexpr std::int32_t of_paligemma = 1;
  std::vector<std::int32_t> ends = open_end_tokens(directory);
  if (ends.empty() && tokenizer.ok() && tokenizer->word(of_paligemma) == "<eos>")
    ends.push_back(of_paligemma);
  return ends;
}

}  // namespace

Result<std::unique_ptr<GlobalParam>> PolicyKv::make(const GlobalParamMaking& making) {
  Result<KvPlace> place = make_place(making);
  if (!place.ok()) return place.error();
  auto made = std::make_unique<PolicyKv>();
  made->place_ = std::move(place).value();
  return std::unique_ptr<GlobalParam>(std::move(made));
}

Result<PolicyHost*> PolicyKv::host(const std::string& directory, kernels::WeightFormat format,
                                   const PlannerOptions& options) {
  const auto make = [&](Model model) -> Result<std::unique_ptr<PolicyHost>> {
    Result<PictureSteps> pictures = PictureSteps::load(directory, model.architecture());
    if (!pictures.ok()) return pictures.error();
    auto made = std::make_unique<PolicyHost>(std::move(model), pool(), options.budget, options);
    Result<FlowPolicy> policy = FlowPolicy::load(made->model);
    if (!policy.ok()) return policy.error();
    made->policy = std::move(policy).value();
    made->pictures = std::move(pictures).value();
    made->tokenizer = open_tokenizer(directory);
    made->end_tokens = end_tokens_of(directory, made->tokenizer);
    return made;
  };
  return host_over(host_, pool(), place_.directory, directory, {format, options.budget}, make);
}

std::uint64_t PolicyKv::keep(std::string_view session, PolicyPrefix prefix) {
  const auto it = prefixes_.find(session);
  PolicyPrefix& kept = it != prefixes_.end() ? it->second : prefixes_[std::string(session)];
  kept = std::move(prefix);
  kept.id = next_id_++;
  kept.used = engine_clock();
  return kept.id;
}

const PolicyPrefix* PolicyKv::find(std::string_view session, std::uint64_t id) const {
  const auto it = prefixes_.find(session);
  return it != prefixes_.end() && it->second.id == id ? &it->second : nullptr;
}

Result<const PolicyPrefix*> PolicyKv::prefix_of(std::string_view session,
                                                const Payload* frame) const {
  if (frame == nullptr) return invalid_argument("there is no prefix to go on with");
  if (const PolicyPrefix* found = find(session, static_cast<std::uint64_t>(frame->number)))
    return found;
  return Error{ErrorCode::stale,
               "the session has another prefix by now, or none: a session's prefix is its last "
               "one, so with `calls: overlap` the next call took it away (`calls: serial` keeps "
               "it until this call has ended); one of another paged_kv is not here"};
}

PoolReport PolicyKv::report() const {
  PoolReport report;
  report.name = place_.name;
  report.model = place_.directory;
  add_pages(*place_.pool, report);
  const Nanoseconds now = engine_clock();
  report.sessions = prefixes_.size();
  for (const auto& [name, prefix] : prefixes_) {
    if (report.session_list.size() == PoolReport::sessions_most) break;
    const std::size_t tokens = prefix.sequence.tokens();
    report.session_list.push_back(
        {name, "", tokens, tokens, false, (now - prefix.used) / 1'000'000});
  }
  return report;
}

std::optional<PoolReport> PolicyKv::pool_report(std::chrono::milliseconds patience) const {
  PoolReport unseen;
  unseen.name = place_.name;
  unseen.model = place_.directory;
  return view_.read(
      host_ != nullptr ? &host_->shared : nullptr, [this] { return report(); }, patience,
      std::move(unseen));
}

void PolicyKv::end_session(std::string_view session) {
  if (host_ == nullptr) return;
  SharedEngine::Turn turn(host_->shared);
  turn.was_used();
  if (const auto it = prefixes_.find(session); it != prefixes_.end()) prefixes_.erase(it);
}

}  // namespace sluice
