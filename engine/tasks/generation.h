// One answer: what was asked, how far it is, and its keys and values.
//
// A `Generation` is all there is of an answer (its rows stay in their pages): it may be taken out
// of an engine, kept and put back at any step, here or in another engine over the same pages, and
// goes on with the same tokens. `GenerationTask` is the state machine that asks for its forwards.
// Shape: `rows` [tokens, width]. Thread: one. Source: omni-flow, section 5.2.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/tasks/task.h"
#include "engine/text/decoded_text.h"
#include "engine/text/tokenizer.h"
#include "kernels/sample.h"

namespace sluice {

struct GenerationOptions {
  std::size_t tokens_max = 64;  // 0: the prompt is written, and that is all
  kernels::SampleOptions sampling;
  std::uint64_t seed = 0;
  std::vector<std::int32_t> end_tokens;  // end the answer and are not part of it
  std::vector<std::string> stop;         // likewise; needs a tokenizer
  bool share_prefix = true;              // pages with others that begin as it does
  bool first_only = false;               // done with its first token, with the pages of all;
                                         // goes on without this
  std::uint8_t priority = 0;             // of its forwards
  std::string tenant{};                  // whose it is, and its pages; empty: nobody's
  /// When its last token must be there, where it has as many as it may; each gets an equal part of
  /// the time from `began` on, the prompt that of the first. On the engine's clock.
  Nanoseconds began = 0, deadline = no_deadline;
};

struct Generation {
  enum class Finish : std::uint8_t { none, end_token, stop, length, failed };
  /// What an answer reached that was cut off; an answer's attribute `cut_off`.
  enum class CutOff : std::uint8_t { none = 0, tokens = 1, pages = 2, positions = 3, tenant = 4 };

  std::uint64_t id = 0;
  GenerationOptions options;
  KvSequence sequence;
  std::vector<std::int32_t> history;  // of the prompt and the answer
  RowsOrigin origin;                  // what else decides its rows; unknown: they are not shared
  std::vector<float> rows;            // of the prompt, not yet written
  std::vector<Position> positions;    // of those; none: their places in the sequence
  Mask mask = Mask::causal;           // block: the prompt is written in one piece
  std::int32_t next_position = -1;    // of the next token; below 0: its place in the sequence
  std::vector<std::int32_t> tokens;   // the answer
  DecodedText decoded;                // its text as far as it is known
  std::string text;                   // of it, without what may become a stop string
  Finish finish = Finish::none;
  std::int32_t end_token = -1;    // the one that ended it
  CutOff limit = CutOff::tokens;  // what decides its greatest length
  std::optional<Error> error;     // of a failed one
  // Of the prompt's tokens: those whose pages were there when it began, of those what was brought
  // for it, and of that what came from a disk.
  std::size_t tokens_kept = 0, tokens_read_back = 0, tokens_of_folder = 0;

  bool in_prompt() const { return !rows.empty(); }
};

/// Asks for the prompt's forwards, as large as they are given, then for one token after the other.
class GenerationTask final : public Task {
 public:
  /// Borrows the tokenizer; none: no text, no stop strings.
  GenerationTask(Generation generation, const Tokenizer* tokenizer)
      : generation_(std::move(generation)),
        tokenizer_(tokenizer),
        pages_before_(generation_.sequence.pages().size()) {
    // Nothing to write and nothing to say.
    if (generation_.rows.empty() && generation_.options.tokens_max == 0)
      generation_.finish = Generation::Finish::length;
  }

  /// Behind a prompt that another task has written: its first token, by what the trunk made of the
  /// prompt's last row, `hidden` [width], normed. Requires: there are no rows to write, and it is
  /// in no engine yet; it may be done then.
  Result<void> begin_behind(TextEngine& engine, std::span<const float> hidden);

  const Generation& generation() const { return generation_; }
  /// What it reached where it ended at its greatest length: the tokens that were asked for, or
  /// before them the pages that there were, those of its tenant or the model's positions.
  Generation::CutOff cut_off() const {
    return generation_.finish == Generation::Finish::length ? generation_.limit
                                                            : Generation::CutOff::none;
  }
  /// Requires: it is in no engine. The task is not used any more.
  Generation release() { return std::move(generation_); }

  bool done() const override {
    return generation_.finish != Generation::Finish::none ||
           (generation_.options.first_only && !generation_.tokens.empty());
  }
  std::optional<Beginning> beginning() const override;
  void found(std::size_t tokens, std::size_t of_folder) override {
    generation_.tokens_read_back = tokens;
    generation_.tokens_of_folder = of_folder;
  }
  PagesWanted pages_wanted(TextEngine& engine) const override;
  /// Begins with the rows that others have made of the same tokens, if there are any. With fewer
  /// pages than it wants the answer is cut off where they end.
  void grant(TextEngine& engine, std::size_t pages) override;
  std::size_t pages_taken() const override {
    return generation_.sequence.pages().size() - pages_before_;
  }
  Need need(const TextEngine& engine) const override;
  void lay_out(const TextEngine& engine, std::size_t rows, Work& work) override;
  void take(TextEngine& engine, const StepResult& result) override;
  void fail(const Error& error) override;

 private:
  /// Tokens that the sequence holds in the end, if the answer is as long as it may be.
  std::size_t tokens_most(const TextEngine& engine) const;
  void forget_written();
  void take_token(std::int32_t token);
  void read();

  Generation generation_;
  const Tokenizer* tokenizer_;
  std::size_t pages_before_;
  // Of the forward under way: rows, values of them, whether it is one of the answer's steps.
  std::size_t rows_ = 0, values_ = 0;
  bool in_step_ = false;
};

}  // namespace sluice
