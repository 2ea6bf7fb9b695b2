// The text of a sequence of tokens that grows: each call decodes what is new and a few tokens
// before it, not the whole.
//
// What a token adds depends on the tokens before it: bytes of one character lie in several, and a
// decoder strips the space of its first word. So the new tokens are decoded together with some
// whose text is settled, and what these make alone is taken off the front. The result is that of
// decoding all tokens at once, but where bytes never become a character: what was shown before them
// stays, and how many U+FFFD stand for them may differ. Thread: one.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/text/tokenizer.h"

namespace sluice {

class DecodedText {
 public:
  /// Requires: `tokens` begins with those of the call before.
  void advance(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens);

  /// Of all tokens so far. Its last characters may be U+FFFD for bytes that are not whole yet.
  const std::string& text() const { return text_; }
  /// Bytes at its beginning that stay as they are, whatever comes.
  std::size_t settled() const { return settled_bytes_; }

 private:
  std::string text_;
  std::size_t settled_bytes_ = 0;
  std::size_t settled_tokens_ = 0;
  std::size_t context_ = 0;   // the first token that is decoded again
  std::string context_text_;  // of those from there to the settled ones' end
};

}  // namespace sluice
