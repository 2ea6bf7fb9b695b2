// Text to token ids and back, as the model's own tokenizer does it.
//
// Reads a Hugging Face `tokenizer.json` of model type BPE (byte level as in Llama 3, Qwen and
// SmolLM, or with byte fallback as in Llama 2 and Gemma) or WordLevel, with its normalizer,
// pre-tokenizer, added tokens, template and decoder; and a sentencepiece `.model`. Nothing in the
// file is trusted. Thread: immutable after `load`. Errors: not_found, corrupt (what is wrong),
// invalid_argument (a part that is not supported, by name), exhausted (longer than the limit).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

/// Bytes of a text, from `begin` up to `end`.
struct TextRange {
  std::size_t begin = 0, end = 0;
};

class Tokenizer {
 public:
  static constexpr std::size_t file_bytes_max = std::size_t{256} << 20;

  /// A `.json` or a `.model` file.
  static Result<Tokenizer> load(const std::string& path);
  static Result<Tokenizer> parse(const std::string& json, const std::string& name);
  /// Of a BPE tokenizer.json that stands in memory. `scores` not empty: sentencepiece's order, in
  /// which the pair is joined whose token has the highest score (by id).
  static Result<Tokenizer> from_parts(const nlohmann::json& json, std::span<const double> scores,
                                      const std::string& name);

  /// `with_special`: what the model's template adds too, such as <bos>.
  std::vector<std::int32_t> encode(std::string_view text, bool with_special = false) const;
  /// The same, where others have written what lies in `quoted`, in order: what reads there as a
  /// special token is text like any other (transformers' `split_special_tokens`).
  std::vector<std::int32_t> encode_quoting(std::string_view text,
                                           std::span<const TextRange> quoted) const;
  /// Special tokens are left out unless asked for. Bytes that are no UTF-8 become U+FFFD.
  std::string decode(std::span<const std::int32_t> ids, bool with_special = false) const;
  /// Words that the vocabulary lacks, as they are written, in order, each once. Only of a tokenizer
  /// of whole words; the others spell what they do not know.
  std::vector<std::string> unknown_words(std::string_view text) const;
  /// The text of one token as it stands in the vocabulary; empty when there is none.
  std::string_view word(std::int32_t id) const;

  /// What each kind of tokenizer implements.
  class Kind;

 private:
  std::shared_ptr<const Kind> kind_;
};

class Tokenizer::Kind {
 public:
  virtual ~Kind() = default;
  virtual std::vector<std::int32_t> encode(std::string_view text, bool with_special) const = 0;
  virtual std::vector<std::int32_t> encode_quoting(std::string_view text,
                                                   std::span<const TextRange>) const {
    return encode(text, false);
  }
  virtual std::string decode(std::span<const std::int32_t> ids, bool with_special) const = 0;
  virtual std::vector<std::string> unknown_words(std::string_view) const { return {}; }
  virtual std::string_view word(std::int32_t id) const = 0;
};

}  // namespace sluice
