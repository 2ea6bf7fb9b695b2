#include "engine/tasks/drawing.h"

namespace sluice {

Drawing::Drawing(const LatentFlow& flow, KvSequence prompt, std::vector<std::int32_t> wordless,
                 std::vector<float> x, const FlowOptions& options)
    : flow_(flow),
      prompt_(std::move(prompt)),
      wordless_tokens_(std::move(wordless)),
      x_(std::move(x)),
      options_(options),
      pages_before_(prompt_.pages().size()) {}

double Drawing::time() const {
  return options_.start * (1 - static_cast<double>(step_) / static_cast<double>(options_.steps));
}

PagesWanted Drawing::pages_wanted(TextEngine& engine) const {
  const std::size_t latents = flow_.shape().tokens;
  std::size_t pages = engine.pages().missing(prompt_, latents);
  if (is_guided()) pages += engine.pages().missing({}, wordless_tokens_.size() + latents);
  return {static_cast<std::uint32_t>(pages), static_cast<std::uint32_t>(pages)};
}

Need Drawing::need(const TextEngine&) const {
  Need need;
  if (in_prompt()) {
    need.kind = Need::Kind::prompt;
    need.rows = static_cast<std::uint32_t>(wordless_tokens_.size());
  } else {
    need.rows = static_cast<std::uint32_t>(flow_.shape().tokens * (is_guided() ? 2 : 1));
  }
  return need;
}

void Drawing::lay_out(const TextEngine& engine, std::size_t, Work& work) {
  rows_.clear();
  lays_prompt_ = in_prompt();
  if (lays_prompt_) {
    engine.embed(wordless_tokens_, rows_);
    work.chunks.push_back({&wordless_, rows_});
    return;
  }
  rows_ = flow_.rows(x_, time());
  work.chunks.push_back({&prompt_, rows_, Mask::block});
  if (is_guided()) work.chunks.push_back({&wordless_, rows_, Mask::block});
  work.is_scratch = true;
}

void Drawing::take(TextEngine&, const StepResult& result) {
  if (lays_prompt_) return;
  const double t = time();
  const std::vector<float> with = flow_.velocity_of(result.hidden.first(rows_.size()), x_, t);
  std::vector<float> without;
  if (is_guided()) without = flow_.velocity_of(result.hidden.subspan(rows_.size()), x_, t);
  const auto guidance = static_cast<float>(options_.guidance);
  const auto dt = static_cast<float>(options_.start / static_cast<double>(options_.steps));
  for (std::size_t i = 0; i < x_.size(); ++i)
    x_[i] -= dt * (is_guided() ? without[i] + guidance * (with[i] - without[i]) : with[i]);
  ++step_;
}

}  // namespace sluice
