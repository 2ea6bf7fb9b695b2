// Continuous batching over one decoder: answers advance by a token each step, prompts fill what is
// left of the step's budget, in pieces.
//
// A `Generation` is all there is of one answer, keys and values included (they stay in their
// pages): it may be removed, kept and put back at any step, here or in another generator over the
// same pool, and goes on with the same tokens. Shape: `rows` [tokens, width].
// Bounds: `Budget`. Thread: one. Source: omni-flow, section 5.2; OxyGen, section 4.2 (decoding
// batched across control cycles); Yu et al. 2022 (continuous batching).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/tasks/text_engine.h"
#include "engine/text/decoded_text.h"
#include "engine/text/tokenizer.h"
#include "kernels/sample.h"

namespace sluice {

struct GenerationOptions {
  std::size_t tokens_max = 64;
  kernels::SampleOptions sampling;
  std::uint64_t seed = 0;
  std::vector<std::int32_t> end_tokens;  // end the answer and are not part of it
  std::vector<std::string> stop;         // likewise; needs a tokenizer
};

struct Generation {
  enum class Finish : std::uint8_t { none, end_token, stop, length, failed };

  std::uint64_t id = 0;
  GenerationOptions options;
  KvSequence sequence;
  std::vector<std::int32_t> history;  // of the prompt and the answer, for the penalty
  std::vector<float> rows;            // of the prompt, not yet written
  std::vector<Position> positions;    // of those; none: their places in the sequence
  Mask mask = Mask::causal;           // block: the prompt is written in one piece
  std::int32_t next_position = -1;    // of the next token; below 0: its place in the sequence
  std::vector<std::int32_t> tokens;   // the answer
  DecodedText decoded;                // its text as far as it is known
  std::string text;                   // of it, without what may become a stop string
  Finish finish = Finish::none;
  std::optional<Error> error;  // of a failed one

  bool in_prompt() const { return !rows.empty(); }
};

/// How much one forward takes.
struct Budget {
  std::size_t tokens = 256;    // prompt pieces and single steps together
  std::size_t sequences = 64;  // that advance at once; more wait
};

class Generator {
 public:
  /// Borrows both; no tokenizer: no texts, no stop strings.
  Generator(TextEngine& engine, const Tokenizer* tokenizer, Budget budget)
      : engine_(engine), tokenizer_(tokenizer), budget_(budget) {}
  /// On the CPU. Borrows all three.
  Generator(const Decoder& decoder, KvPool& pool, const Tokenizer* tokenizer, Budget budget)
      : own_(std::make_unique<CpuText>(decoder, pool)),
        engine_(*own_),
        tokenizer_(tokenizer),
        budget_(budget) {}

  /// Last in the queue. A finished one is not taken up again.
  void add(Generation generation) { queue_.push_back(std::move(generation)); }
  /// Takes one out, whatever it has done; none: there is no such one.
  std::optional<Generation> remove(std::uint64_t id);
  const Generation* find(std::uint64_t id) const;
  bool busy() const;
  std::size_t size() const { return queue_.size(); }

  /// One forward. `advanced`: who got a token or finished. A generation that does not fit the pool
  /// fails alone, with the others going on.
  void step(std::vector<std::uint64_t>& advanced);
  /// Tokens of the last forward, for those who watch the budget.
  std::size_t last_tokens() const { return last_tokens_; }

 private:
  /// Tokens of the generation that the coming forward takes.
  struct Turn {
    Generation* generation = nullptr;
    std::size_t count = 0;
  };

  void plan(std::vector<Turn>& turns);
  Chunk chunk_of(const Turn& turn) const;
  void forward(std::span<Turn> turns, std::vector<std::uint64_t>& advanced);
  /// False: not all of them can be chosen for by the engine.
  bool step_on_engine(std::span<Turn> turns, std::vector<std::uint64_t>& advanced);
  void forget_written(const Turn& turn) const;
  void choose(Generation& generation, std::span<const float> logits) const;
  void take(Generation& generation, std::int32_t token) const;
  void read(Generation& generation) const;
  std::size_t width() const { return engine_.shape().block.width; }

  std::unique_ptr<TextEngine> own_;
  TextEngine& engine_;
  const Tokenizer* tokenizer_;
  Budget budget_;
  std::deque<Generation> queue_;
  std::size_t last_tokens_ = 0;
};

}  // namespace sluice
