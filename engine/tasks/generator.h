// Generations together: an `ModelEngine` of nothing else, for who has only answers to make.
//
// Answers advance by a token each step, prompts fill what is left of the step's budget, in pieces.
// Bounds: `Budget`. Thread: one. Source: omni-flow, section 5.2; OxyGen, section 4.2 (decoding
// batched across control cycles); Yu et al. 2022 (continuous batching).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/tasks/generation.h"
#include "engine/tasks/model_engine.h"

namespace sluice {

/// How much one forward takes.
struct Budget {
  std::size_t tokens = 256;    // prompt pieces and single steps together
  std::size_t sequences = 64;  // that advance at once; more wait
};

class Generator {
 public:
  /// Borrows both; no tokenizer: no texts, no stop strings.
  Generator(TextEngine& engine, const Tokenizer* tokenizer, Budget budget);
  /// On the CPU. Borrows all three.
  Generator(const Decoder& decoder, KvPool& pool, const Tokenizer* tokenizer, Budget budget);

  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Behind the others. A finished one is not taken up again.
  void add(Generation generation);
  /// Takes one out, whatever it has done; none: there is no such one.
  std::optional<Generation> remove(std::uint64_t id);
  const Generation* find(std::uint64_t id) const;
  /// Prompts' beginnings are looked for there too. Borrows it. Requires: nothing was added.
  void use(PageSource* source) { engine_.use(source); }
  bool busy() const { return !engine_.empty(); }
  std::size_t size() const { return tasks_.size(); }

  /// One forward. `advanced`: who got a token or finished. A generation for which there are no
  /// pages waits for those that run, and fails when nobody runs; one that has finished runs no
  /// more, and keeps its pages until it is taken out.
  void step(std::vector<std::uint64_t>& advanced);
  /// Tokens of the last forward, for those who watch the budget.
  std::size_t last_tokens() const { return last_tokens_; }

 private:
  Generator(std::unique_ptr<TextEngine> own, const Tokenizer* tokenizer, Budget budget);

  std::unique_ptr<TextEngine> own_;
  const Tokenizer* tokenizer_;
  ModelEngine engine_;
  std::map<std::uint64_t, std::unique_ptr<GenerationTask>> tasks_;
  std::size_t last_tokens_ = 0;
};

}  // namespace sluice
