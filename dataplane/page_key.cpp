#include "dataplane/page_key.h"

#include <algorithm>

#include "base/little_endian.h"

namespace sluice {
namespace {

constexpr std::size_t block_bytes = 64;  // of SHA-256
constexpr std::size_t key_words = 8;     // of 32 bits; the first of a page's last block

void write_number(std::uint64_t number, std::uint32_t* to) {
  to[0] = static_cast<std::uint32_t>(number >> 32);
  to[1] = static_cast<std::uint32_t>(number);
}

PageKey key_of(const Sha256State& code) {
  PageKey key;
  for (std::size_t i = 0; i < 4; ++i)
    key.words[i] = std::uint64_t{code[2 * i]} << 32 | code[2 * i + 1];
  return key;
}

}  // namespace

PageKey PageKeys::root(const PageScope& scope) const {
  std::string message;
  for (const std::string* field : {&scope.tenant, &scope.model, &scope.layout, &scope.dtype}) {
    append_little_endian(field->size(), 8, message);
    message += *field;
  }
  message += "scope";  // as no page's message ends, but one of 495 GB: its size is there
  return key_of(mac_.end(sha256_end(mac_.begin(), block_bytes, message)));
}

void PageKeys::sum(std::string_view bytes, ContentSum& sum) const {
  const std::uint64_t size = bytes.size();
  sum = {.state = mac_.begin(), .last = {}};
  for (; bytes.size() >= block_bytes; bytes.remove_prefix(block_bytes))
    sha256_block(sum.state, reinterpret_cast<const unsigned char*>(bytes.data()));
  if (!bytes.empty()) {
    std::array<unsigned char, block_bytes> block{};
    std::ranges::copy(bytes, block.begin());
    sha256_block(sum.state, block.data());
  }
  constexpr std::uint64_t behind = 4 * (key_words + 3);  // the key, "page" and a number
  std::uint32_t* to = &sum.last[key_words];
  to[0] = 0x70616765;  // "page"
  write_number(size, &to[1]);
  to[3] = 0x80000000;  // SHA-256's padding, and how many bits stand before it
  const std::uint64_t blocks = 1 + (size + block_bytes - 1) / block_bytes;  // with the secret's
  write_number(8 * (blocks * block_bytes + behind), &sum.last[14]);
}

PageKey PageKeys::next(const PageKey& parent, const ContentSum& content) const {
  Sha256Words words = content.last;
  for (std::size_t i = 0; i < 4; ++i) write_number(parent.words[i], &words[2 * i]);
  Sha256State state = content.state;
  sha256_words(state, words);
  return key_of(mac_.end(state));
}

}  // namespace sluice
