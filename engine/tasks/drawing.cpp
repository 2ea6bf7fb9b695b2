#include "engine/tasks/drawing.h"

namespace sluice {

Drawing::Drawing(std::unique_ptr<DrawingSteps> steps, KvSequence prompt,
                 std::vector<std::int32_t> wordless, const DrawingOptions& options)
    : steps_(std::move(steps)),
      prompt_(std::move(prompt)),
      wordless_tokens_(std::move(wordless)),
      options_(options),
      works_(steps_->left() + (in_prompt() ? 1 : 0)),
      pages_before_(prompt_.pages().size()) {}

PagesWanted Drawing::pages_wanted(TextEngine& engine) const {
  const std::size_t latents = steps_->rows();
  std::size_t pages = engine.pages().missing(prompt_, latents);
  if (is_guided()) pages += engine.pages().missing({}, wordless_tokens_.size() + latents);
  const auto all = static_cast<std::uint32_t>(pages);
  return {all, all, true, options_.tenant};
}

Need Drawing::need(const TextEngine&) const {
  Need need;
  if (in_prompt()) {
    need.kind = Need::Kind::prompt;
    need.rows = static_cast<std::uint32_t>(wordless_tokens_.size());
  } else {
    need.rows = static_cast<std::uint32_t>(steps_->rows() * (is_guided() ? 2 : 1));
  }
  need.priority = options_.priority;
  need.deadline = deadline_of_part(options_.began, options_.deadline, works_ended_ + 1, works_);
  return need;
}

void Drawing::lay_out(const TextEngine& engine, std::size_t, Work& work) {
  rows_.rows.clear();
  lays_prompt_ = in_prompt();
  if (lays_prompt_) {
    engine.embed(wordless_tokens_, rows_.rows);
    work.chunks.push_back({&wordless_, rows_.rows});
    return;
  }
  steps_->lay_out(rows_);
  const auto add = [&](KvSequence& sequence, std::uint32_t condition) {
    work.chunks.push_back(
        {&sequence, rows_.rows, Mask::block, {}, {}, condition, nullptr, rows_.conditions});
  };
  add(prompt_, rows_.condition);
  if (is_guided()) add(wordless_, rows_.unguided);
  work.is_scratch = true;
}

void Drawing::take(TextEngine&, const StepResult& result) {
  ++works_ended_;
  if (lays_prompt_) return;
  const std::size_t values = rows_.rows.size();
  steps_->take(result.hidden.first(values),
               is_guided() ? result.hidden.subspan(values) : std::span<const float>());
}

}  // namespace sluice
