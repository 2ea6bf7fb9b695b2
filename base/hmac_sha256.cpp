#include "base/hmac_sha256.h"

#include <algorithm>

#include "base/sha256.h"
#include "base/sha256_words.h"

namespace sluice {
namespace {

constexpr std::size_t block_bytes = 64;  // of SHA-256

/// A block of a state of eight words, zero here, and the padding behind the key's block and it.
constexpr Sha256Words padded_state = [] {
  Sha256Words words{};
  words[8] = 0x80000000;
  words[15] = 8 * (block_bytes + sizeof(Sha256State));  // bits
  return words;
}();

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

HmacSha256::HmacSha256(std::span<const std::uint8_t> key)
    : inner_(sha256_start), outer_(sha256_start) {
  std::array<std::uint8_t, block_bytes> inner{};
  if (key.size() <= block_bytes)
    std::ranges::copy(key, inner.begin());
  else
    std::ranges::copy(sha256(text_of(key)), inner.begin());
  std::array<std::uint8_t, block_bytes> outer = inner;
  for (std::uint8_t& byte : inner) byte ^= 0x36;
  for (std::uint8_t& byte : outer) byte ^= 0x5c;
  sha256_block(inner_, inner.data());
  sha256_block(outer_, outer.data());
}

std::array<std::uint8_t, 32> HmacSha256::of(std::string_view message) const {
  return sha256_bytes(end(sha256_end(inner_, block_bytes, message)));
}

Sha256State HmacSha256::end(const Sha256State& inner) const {
  // Whole, and not word by word: who loads sixteen bytes next would wait for single words' stores.
  Sha256Words block = padded_state;
  std::ranges::copy(inner, block.begin());
  Sha256State outer = outer_;
  sha256_words(outer, block);
  return outer;
}

}  // namespace sluice
