// The kinds of tokenizer behind `Tokenizer`, and the steps of the BPE kind. For `Tokenizer` only.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_text.h"

namespace sluice {

/// Lower-cases, splits at white space and around punctuation; an unknown word is the unknown token.
class WordTokenizer final : public Tokenizer::Kind {
 public:
  static Result<WordTokenizer> parse(const nlohmann::json& model, const std::string& name);

  std::vector<std::int32_t> encode(std::string_view text) const;
  std::vector<std::int32_t> encode(std::string_view text, bool) const override {
    return encode(text);
  }
  /// Words joined by single spaces.
  std::string decode(std::span<const std::int32_t> ids) const;
  std::string decode(std::span<const std::int32_t> ids, bool) const override { return decode(ids); }
  std::vector<std::string> unknown_words(std::string_view text) const override;
  std::string_view word(std::int32_t id) const override;

 private:
  std::map<std::string, std::int32_t, std::less<>> ids_;
  std::vector<std::string> words_;
  std::int32_t unknown_ = 0;
};

/// Byte-pair encoding. Source: Sennrich et al. 2016; Hugging Face tokenizers for the file.
class BpeTokenizer final : public Tokenizer::Kind {
 public:
  static Result<BpeTokenizer> parse(const nlohmann::json& file, const std::string& name);

  /// Any two tokens whose texts make a third are joined, the highest score of the third first.
  /// `scores`: by id.
  Result<void> merge_by_scores(std::span<const double> scores, const std::string& name);

  std::vector<std::int32_t> encode(std::string_view text, bool with_special) const override;
  std::vector<std::int32_t> encode_quoting(std::string_view text,
                                           std::span<const TextRange> quoted) const override;
  std::string decode(std::span<const std::int32_t> ids, bool with_special) const override;
  std::string_view word(std::int32_t id) const override;

 private:
  struct Merge {
    std::int32_t rank = 0;
    std::int32_t made = 0;
  };
  /// A token that stands outside the merges.
  struct Added {
    std::string content;
    std::int32_t id = 0;
    bool special = false, single_word = false, lstrip = false, rstrip = false;
  };

  Result<void> read_model(const nlohmann::json& model, const std::string& name);
  Result<void> read_added(const nlohmann::json& file, const std::string& name);
  Result<void> read_template(const nlohmann::json& step, const std::string& name);
  void put_word(std::int32_t id, const std::string& content);

  /// Calls `text` and `token` for what lies between and for each added token, in order. One that is
  /// special and has a byte in `quoted` is no token.
  template <typename Text, typename Token>
  void split_added(std::string_view text, const std::vector<Added>& added,
                   std::span<const TextRange> quoted, const Text& on_text,
                   const Token& on_token) const;
  /// `quoted`, of a text from which `part` begins at `at`, as it lies in the normalized part.
  std::vector<TextRange> quoted_in(std::span<const TextRange> quoted, std::string_view part,
                                   std::size_t at) const;
  void append_ids(std::string_view text, std::span<const TextRange> quoted,
                  std::vector<std::int32_t>& ids) const;
  void encode_segment(std::string_view text, bool first, std::vector<std::int32_t>& ids) const;
  void encode_piece(const std::string& piece, std::vector<std::int32_t>& ids) const;
  void first_symbols(const std::string& piece, std::vector<std::int32_t>& symbols) const;

  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<std::string> words_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::array<std::int32_t, 256> byte_ids_{};
  bool byte_fallback_ = false, fuse_unknown_ = false, ignore_merges_ = false;
  std::int32_t unknown_ = -1;
  std::vector<Added> added_raw_, added_normalized_;
  std::vector<bool> special_;  // by id
  std::vector<bool> is_added_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  TokenDecoder decoder_;
  std::vector<std::int32_t> before_, after_;  // the template's tokens
};

/// A sentencepiece model. Errors: corrupt.
Result<std::shared_ptr<const Tokenizer::Kind>> load_pieces(const std::string& path);

}  // namespace sluice
