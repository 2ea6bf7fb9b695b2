// The text steps of a `tokenizer.json`: normalizers, pre-tokenizers and decoders, as data.
//
// Errors of the parsers: invalid_argument (a step that is not supported), corrupt.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

/// A Unicode pattern. Matching is bounded: a pattern that runs away matches nothing.
class Pattern {
 public:
  static Result<Pattern> make(const std::string& expression);
  static Pattern literal(const std::string& text);
  /// The next match from `at` on: its begin and end, or npos.
  std::pair<std::size_t, std::size_t> find(std::string_view text, std::size_t at) const;

 private:
  std::string literal_;
  std::shared_ptr<void> compiled_;  // PCRE2's
};

class Normalizer {
 public:
  static Result<Normalizer> parse(const nlohmann::json& step);
  std::string operator()(std::string_view text) const;

 private:
  struct Step {
    enum class Kind { nfc, nfd, nfkc, nfkd, lower, prepend, replace } kind = Kind::nfc;
    std::string from, to;
  };
  Result<void> add(const nlohmann::json& step, int depth);
  std::vector<Step> steps_;
};

class PreTokenizer {
 public:
  static Result<PreTokenizer> parse(const nlohmann::json& step);
  /// `first`: the text begins the input (some prepend only there).
  std::vector<std::string> operator()(std::string_view text, bool first) const;

 private:
  struct Step {
    enum class Kind { split, byte_level, digits, metaspace } kind = Kind::split;
    enum class Keep { isolated, removed, with_previous, with_next } keep = Keep::isolated;
    Pattern pattern;
    bool invert = false;
    bool prefix_space = false, regex = false;                          // byte level
    bool each = false;                                                 // digits, one by one
    bool split = true, prepend_first = false, prepend_always = false;  // metaspace
    std::string replacement;
  };
  Result<void> add(const nlohmann::json& step, int depth);
  Result<void> add_split(const nlohmann::json& step);
  Result<void> add_metaspace(const nlohmann::json& step);
  static void cut(const Step& step, std::string_view text, std::vector<std::string>& pieces);
  std::vector<Step> steps_;
};

/// Tokens to text.
class TokenDecoder {
 public:
  static Result<TokenDecoder> parse(const nlohmann::json& step);
  std::string operator()(std::vector<std::string> tokens) const;

 private:
  struct Step {
    enum class Kind {
      byte_level,
      replace,
      byte_fallback,
      fuse,
      strip,
      metaspace
    } kind = Kind::fuse;
    std::string from, to;
    std::size_t start = 0, stop = 0;
    bool drop_first_space = false;
  };
  Result<void> add(const nlohmann::json& step, int depth);
  static void apply(const Step& step, std::vector<std::string>& tokens);
  std::vector<Step> steps_;
};

/// GPT-2's letters for bytes, so that any text is letters.
const std::string& letter_of(unsigned char byte);
/// The length of the character at `at`, 1 for a byte that begins none.
std::size_t character_length(std::string_view text, std::size_t at);
/// Bytes that are no UTF-8 become U+FFFD, one for each maximal part.
std::string repaired(std::string_view bytes);

}  // namespace sluice
