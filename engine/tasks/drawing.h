// One drawing: noise to latents by flow matching, a step of a forward each.
//
// The latents' rows stand behind the prompt's sequence for one forward and are forgotten after it.
// With guidance a second sequence without words stands beside it; its own prompt is the first work.
// Thread: one. Source: Lipman et al. 2023; omni-flow, section 5.3 (diffusion reusing the LLM path).
#pragma once

#include <optional>
#include <vector>

#include "engine/layers/latent_flow.h"
#include "engine/tasks/task.h"

namespace sluice {

class Drawing final : public Task {
 public:
  /// `prompt`: a sequence of its own, a fork of the session's. `wordless`: the tokens before a
  /// drawing that was asked for without words. `x`: noise, or what the drawing starts from. Borrows
  /// the flow.
  Drawing(const LatentFlow& flow, KvSequence prompt, std::vector<std::int32_t> wordless,
          std::vector<float> x, const FlowOptions& options);

  /// What was drawn. Requires: done, without an error.
  std::vector<float> take_latents() { return std::move(x_); }
  const std::optional<Error>& error() const { return error_; }

  bool done() const override { return step_ == options_.steps || error_.has_value(); }
  PagesWanted pages_wanted(TextEngine& engine) const override;
  std::size_t pages_taken() const override {
    return prompt_.pages().size() - pages_before_ + wordless_.pages().size();
  }
  Need need(const TextEngine& engine) const override;
  void lay_out(const TextEngine& engine, std::size_t rows, Work& work) override;
  void take(TextEngine& engine, const StepResult& result) override;
  void fail(const Error& error) override { error_ = error; }

 private:
  bool is_guided() const { return options_.guidance != 1; }
  bool in_prompt() const { return is_guided() && wordless_.tokens() == 0; }
  double time() const;

  const LatentFlow& flow_;
  KvSequence prompt_, wordless_;
  std::vector<std::int32_t> wordless_tokens_;
  std::vector<float> x_;
  FlowOptions options_;
  std::vector<float> rows_;   // in the forward under way
  bool lays_prompt_ = false;  // and not a step
  std::size_t step_ = 0;
  std::size_t pages_before_;
  std::optional<Error> error_;
};

}  // namespace sluice
