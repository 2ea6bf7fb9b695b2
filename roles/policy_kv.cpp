#include "roles/policy_kv.h"

#include "engine/tasks/chat_model.h"
#include "roles/check_model.h"
#include "roles/kv_pages.h"

namespace sluice {

Result<std::unique_ptr<GlobalParam>> PolicyKv::make(const GlobalParamMaking& making) {
  const Result<Architecture> architecture = Architecture::load(making.model_directory);
  if (!architecture.ok()) return architecture.error();
  Result<std::unique_ptr<KvPool>> pool = make_pages(*architecture->text, *making.spec);
  if (!pool.ok()) return pool.error();
  auto made = std::make_unique<PolicyKv>();
  made->name_ = making.spec->name.text;
  made->directory_ = making.model_directory;
  made->pool_ = std::move(pool).value();
  return std::unique_ptr<GlobalParam>(std::move(made));
}

Result<PolicyHost*> PolicyKv::host(const std::string& directory, kernels::WeightFormat format,
                                   const PlannerOptions& options) {
  if (host_ != nullptr && directory == directory_) {
    if (Result<void> same =
            check_same_use({host_->model.format(), host_->step_rows}, {format, options.budget});
        !same.ok())
      return same.error();
    return host_.get();
  }
  Result<Model> model = open_beside(*pool_, directory_, directory, format);
  if (!model.ok()) return model.error();
  Result<PictureSteps> pictures = PictureSteps::load(directory, model->architecture());
  if (!pictures.ok()) return pictures.error();
  auto made =
      std::make_unique<PolicyHost>(std::move(model).value(), *pool_, options.budget, options);
  Result<FlowPolicy> policy = FlowPolicy::load(made->model);
  if (!policy.ok()) return policy.error();
  made->policy = std::move(policy).value();
  made->pictures = std::move(pictures).value();
  made->tokenizer = open_tokenizer(directory);
  host_ = std::move(made);
  return host_.get();
}

std::uint64_t PolicyKv::keep(std::string_view session, KvSequence sequence) {
  const auto it = prefixes_.find(session);
  PolicyPrefix& kept = it != prefixes_.end() ? it->second : prefixes_[std::string(session)];
  kept = {next_id_++, std::move(sequence), engine_clock()};
  return kept.id;
}

const KvSequence* PolicyKv::find(std::string_view session, std::uint64_t id) const {
  const auto it = prefixes_.find(session);
  return it != prefixes_.end() && it->second.id == id ? &it->second.sequence : nullptr;
}

PoolReport PolicyKv::report() const {
  PoolReport report;
  report.name = name_;
  report.model = directory_;
  add_pages(*pool_, report);
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
  unseen.name = name_;
  unseen.model = directory_;
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
