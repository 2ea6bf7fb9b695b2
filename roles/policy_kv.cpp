#include "roles/policy_kv.h"

#include <sys/random.h>

#include <algorithm>

#include "base/sha256.h"
#include "engine/tasks/chat_model.h"
#include "roles/chat_options.h"
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

std::uint64_t random_number() {
  std::uint64_t number = 0;
  do SLUICE_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
  while (number == 0);
  return number;
}

Error no_prefix(bool is_attached) {
  return Error{ErrorCode::stale,
               "the session has another prefix by now, or none: a session's prefix is its last "
               "one, so with `calls: overlap` the next call took it away (`calls: serial` keeps "
               "it until this call has ended); one of another paged_kv is not here" +
                   std::string(is_attached ? ", nor one whose process has died since" : "")};
}

/// How words begin and are made behind a prefix, for who writes them in another process.
void add_words(const PolicyPrefix& prefix, Payload& frame) {
  const auto width = static_cast<std::int64_t>(prefix.last_row.size());
  frame.tensor = Tensor::of_f32({width}, prefix.last_row);
  chat::add_options(prefix.options, frame);
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
    made->weights = static_cast<std::int64_t>(sha256_prefix(
        made->model.files() + std::to_string(static_cast<int>(made->model.format()))));
    return made;
  };
  return host_over(host_, pool(), place_.directory, directory, {format, options.budget}, make);
}

Result<PayloadRef> PolicyKv::keep(std::string_view session, PolicyPrefix prefix) {
  const bool is_attached = pool().is_attached();
  prefix.id = is_attached ? random_number() : next_id_++;
  prefix.used = engine_clock();
  auto* frame = new Payload;
  PayloadRef made(frame);
  frame->type = ValueType::number;
  frame->number = static_cast<std::int64_t>(prefix.id);
  frame->attributes = {{"length", static_cast<std::int64_t>(prefix.sequence.tokens())}};
  if (is_attached) {
    frame->attributes.emplace_back("weights", host_->weights);
    if (host_->model.architecture().family == Family::pi05) add_words(prefix, *frame);
    if (Result<void> done = pool().offer(prefix.sequence, prefix.id); !done.ok())
      return done.error();
  }
  forget(session);
  prefixes_.emplace(session, std::move(prefix));
  return made;
}

void PolicyKv::forget(std::string_view session) {
  const auto it = prefixes_.find(session);
  if (it == prefixes_.end()) return;
  if (pool().is_attached()) pool().withdraw(it->second.id);
  prefixes_.erase(it);
}

const PolicyPrefix* PolicyKv::find(std::string_view session, std::uint64_t id) const {
  const auto it = prefixes_.find(session);
  return it != prefixes_.end() && it->second.id == id ? &it->second : nullptr;
}

Result<PolicyPrefix> PolicyKv::prefix_of(std::string_view session, const Payload* frame) {
  if (frame == nullptr) return invalid_argument("there is no prefix to go on with");
  const auto id = static_cast<std::uint64_t>(frame->number);
  if (const PolicyPrefix* found = find(session, id))
    return PolicyPrefix{pool().fork(found->sequence), found->last_row, found->options, id, 0};
  if (!pool().is_attached()) return no_prefix(false);
  return accept(*frame);
}

/// Of another process. Its rows are those of that one's weights.
Result<PolicyPrefix> PolicyKv::accept(const Payload& frame) {
  PolicyPrefix made;
  made.id = static_cast<std::uint64_t>(frame.number);
  Result<std::optional<KvSequence>> taken = pool().accept(made.id);
  if (!taken.ok()) return taken.error();
  if (!taken->has_value()) return no_prefix(true);
  made.sequence = *std::move(*taken);
  if (static_cast<std::int64_t>(made.sequence.tokens()) != frame.attribute("length").value_or(-1))
    return no_prefix(true);
  if (frame.attribute("weights") != host_->weights)
    return Error{ErrorCode::stale,
                 "the prefix was read with other weights, for the checkpoint's files have changed "
                 "since one of the two processes began: start them again"};
  if (frame.tensor.dtype() == Dtype::f32)
    made.last_row.assign(frame.tensor.f32().begin(), frame.tensor.f32().end());
  made.options = chat::options_of(frame, 1);
  return made;
}

PoolReport PolicyKv::report() const {
  PoolReport report = unseen_pool(place_.name, place_.directory);
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
  return view_.read(
      host_ != nullptr ? &host_->shared : nullptr, [this] { return report(); }, patience,
      unseen_pool(place_.name, place_.directory));
}

void PolicyKv::end_session(std::string_view session) {
  if (host_ == nullptr) return;
  SharedEngine::Turn turn(host_->shared);
  turn.was_used();
  forget(session);
}

}  // namespace sluice
