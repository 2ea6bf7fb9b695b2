#include "engine/layers/kv.h"

#include <string>

namespace sluice {

KvPages::KvPages(const KvShape& shape, std::size_t pages) : shape_(shape), pages_(pages) {
  for (std::size_t i = pages; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
}

Result<void> KvPages::extend(KvSequence& sequence, std::size_t tokens) {
  const std::size_t wanted =
      (sequence.tokens + tokens + shape_.page_tokens - 1) / shape_.page_tokens;
  const std::size_t missing = wanted > sequence.pages.size() ? wanted - sequence.pages.size() : 0;
  if (missing > free_.size())
    return Error{ErrorCode::exhausted, "the KV pool is full: " + std::to_string(missing) +
                                           " pages are needed, " + std::to_string(free_.size()) +
                                           " of " + std::to_string(pages_) +
                                           " are free; end a session or raise `pages`"};
  for (std::size_t i = 0; i < missing; ++i) {
    sequence.pages.push_back(free_.back());
    free_.pop_back();
  }
  sequence.tokens += tokens;
  return {};
}

void KvPages::truncate(KvSequence& sequence, std::size_t tokens) {
  SLUICE_CHECK(tokens <= sequence.tokens, "a sequence cannot be cut to more tokens than it has");
  const std::size_t kept = (tokens + shape_.page_tokens - 1) / shape_.page_tokens;
  while (sequence.pages.size() > kept) {
    free_.push_back(sequence.pages.back());
    sequence.pages.pop_back();
  }
  sequence.tokens = tokens;
  if (sequence.positions.size() > tokens) sequence.positions.resize(tokens);
}

float* KvPool::keys(std::uint32_t page, std::size_t layer) {
  return store_.data() + page * shape().page_floats() +
         layer * 2 * shape().page_tokens * shape().row;
}

float* KvPool::values(std::uint32_t page, std::size_t layer) {
  return keys(page, layer) + shape().page_tokens * shape().row;
}

}  // namespace sluice
