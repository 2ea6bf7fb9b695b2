#include "engine/text/decoded_text.h"

namespace sluice {

namespace {

constexpr std::size_t character_bytes_max = 4;

}  // namespace

void DecodedText::advance(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens) {
  if (tokens.size() == settled_tokens_) return;
  const std::string known_and_new = tokenizer.decode(tokens.subspan(context_));
  text_.resize(settled_bytes_);
  const std::size_t waiting = tokens.size() - settled_tokens_;
  if (known_and_new.starts_with(context_text_))
    text_.append(known_and_new, context_text_.size());
  else if (waiting < character_bytes_max)
    return;  // a byte of an unfinished character makes some decoders give up those before it too
  else
    text_ += tokenizer.decode(tokens.last(waiting));
  if (text_.ends_with("\xef\xbf\xbd")) return;
  const bool has_text = text_.size() > settled_bytes_;
  settled_bytes_ = text_.size();
  // Tokens without text are no context: a decoder would strip the next word's space.
  if (has_text) {
    context_ = settled_tokens_;
    context_text_ = tokenizer.decode(tokens.subspan(context_));
  }
  settled_tokens_ = tokens.size();
}

}  // namespace sluice
