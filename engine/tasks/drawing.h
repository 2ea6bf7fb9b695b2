// One drawing, a step of a forward each.
//
// The latents' rows stand behind the prompt's sequence for one forward and are forgotten after it.
// With guidance a second sequence without the prompt stands beside it; if that begins with words,
// they are the first work. What a step computes is another's matter (`drawing_steps.h`).
// Thread: one. Units: nanoseconds of the engine's clock. Source: omni-flow, section 5.3 (diffusion
// reusing the LLM path).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/tasks/drawing_steps.h"
#include "engine/tasks/task.h"

namespace sluice {

struct DrawingOptions {
  std::uint8_t priority = 0;
  /// When the last step must have ended; each work gets an equal part of the time from `began` on.
  Nanoseconds began = 0;
  Nanoseconds deadline = no_deadline;
  std::string tenant{};  // whose it is; empty: nobody's
};

class Drawing final : public Task {
 public:
  /// `prompt`: a sequence of its own, a fork of the session's, or empty. `wordless`: the tokens
  /// before a drawing that was asked for without words; may be none.
  Drawing(std::unique_ptr<DrawingSteps> steps, KvSequence prompt,
          std::vector<std::int32_t> wordless, const DrawingOptions& options);

  /// What was drawn. Requires: done, without an error.
  std::vector<float> take_latents() { return steps_->take_latents(); }
  const std::optional<Error>& error() const { return error_; }

  bool done() const override { return steps_->left() == 0 || error_.has_value(); }
  PagesWanted pages_wanted(TextEngine& engine) const override;
  void grant(TextEngine& engine, std::size_t) override {
    engine.pages().belong(prompt_, options_.tenant);
    engine.pages().belong(wordless_, options_.tenant);
  }
  std::size_t pages_taken() const override {
    return prompt_.pages().size() - pages_before_ + wordless_.pages().size();
  }
  Need need(const TextEngine& engine) const override;
  void lay_out(const TextEngine& engine, std::size_t rows, Work& work) override;
  void take(TextEngine& engine, const StepResult& result) override;
  void fail(const Error& error) override { error_ = error; }

 private:
  bool is_guided() const { return steps_->is_guided(); }
  bool in_prompt() const {
    return is_guided() && !wordless_tokens_.empty() && wordless_.tokens() == 0;
  }

  std::unique_ptr<DrawingSteps> steps_;
  KvSequence prompt_, wordless_;
  std::vector<std::int32_t> wordless_tokens_;
  DrawingOptions options_;
  DrawingRows rows_;          // in the forward under way
  bool lays_prompt_ = false;  // and not a step
  std::size_t works_, works_ended_ = 0;
  std::size_t pages_before_;
  std::optional<Error> error_;
};

}  // namespace sluice
