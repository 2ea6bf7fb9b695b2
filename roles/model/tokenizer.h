// Words to token ids and back, from a Hugging Face `tokenizer.json` of model type WordLevel.
//
// Lower-cases, splits at white space and around punctuation; an unknown word is the unknown token.
// Thread: immutable after `load`. Errors: not_found, corrupt (what is wrong).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

class Tokenizer {
 public:
  static Result<Tokenizer> load(const std::string& path);
  static Result<Tokenizer> parse(const std::string& json, const std::string& name);

  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Words joined by single spaces.
  std::string decode(std::span<const std::int32_t> ids) const;
  /// The word of a token; empty when there is none.
  std::string_view word(std::int32_t id) const;

 private:
  std::map<std::string, std::int32_t, std::less<>> ids_;
  std::vector<std::string> words_;
  std::int32_t unknown_ = 0;
};

}  // namespace sluice
