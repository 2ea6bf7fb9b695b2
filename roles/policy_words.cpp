#include "roles/policy_words.h"

namespace sluice {

Result<void> PolicyWords::begin(Asked& asked, SharedEngine::Turn& mine) {
  const Family family = host_.model.architecture().family;
  if (family != Family::pi05)
    return invalid_argument("a policy of family " + std::string(to_string(family)) +
                            " writes no words");
  if (!host_.tokenizer.ok())
    return invalid_argument("words need a tokenizer: " + host_.tokenizer.error().message);
  const Activation& activation = *asked.activation;
  Result<PolicyPrefix> prefix = kv_.prefix_of(activation.session(), activation.input("prefix"));
  if (!prefix.ok()) return prefix.error();
  if (prefix->last_row.size() != host_.model.text().width())
    return invalid_argument("the prefix is none that a `prefill` of this model has made");
  Generation generation;
  generation.options = prefix->options;
  generation.options.end_tokens = host_.end_tokens;
  generation.sequence = std::move(prefix->sequence);
  asked.answer = std::make_unique<GenerationTask>(std::move(generation), &*host_.tokenizer);
  if (Result<void> begun = asked.answer->begin_behind(host_.text, prefix->last_row); !begun.ok())
    return begun;
  if (!asked.answer->done()) asked.id = mine.add(*asked.answer);
  return {};
}

void PolicyWords::yield_progress(Asked& asked, Emissions& emissions) {
  const Generation& generation = asked.answer->generation();
  // The last token may have added no text, and still it is told that they were cut off there.
  const bool is_cut_off = generation.finish == Generation::Finish::length;
  if (generation.text.size() <= asked.said && !is_cut_off) return;
  auto* payload = new Payload;
  payload->type = ValueType::text;
  payload->text = generation.text.substr(asked.said);
  if (is_cut_off)
    payload->attributes.emplace_back("cut_off", static_cast<std::int64_t>(asked.answer->cut_off()));
  asked.said = generation.text.size();
  emissions.add(*asked.activation, "token", PayloadRef(payload));
}

void PolicyWords::advance(SharedEngine::Turn& mine, Emissions& emissions,
                          std::vector<StepOutcome>& ended) {
  for (Asked& asked : asked_) {
    Result<void> outcome;
    if (asked.activation->cancelled())
      outcome = Error{ErrorCode::cancelled, "the call was cancelled"};
    else if (asked.answer == nullptr)
      outcome = begin(asked, mine);
    if (outcome.ok()) {
      yield_progress(asked, emissions);
      if (!asked.answer->done()) continue;
      if (const auto& error = asked.answer->generation().error; error.has_value()) outcome = *error;
    }
    mine.engine().remove(asked.id);
    asked.answer.reset();
    ended.push_back({asked.activation, std::move(outcome)});
    asked.activation = nullptr;
  }
  std::erase_if(asked_, [](const Asked& asked) { return asked.activation == nullptr; });
}

void PolicyWords::leave(SharedEngine::Turn& mine) {
  for (const Asked& asked : asked_) mine.engine().remove(asked.id);
  asked_.clear();
}

}  // namespace sluice
