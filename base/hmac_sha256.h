// HMAC-SHA-256 under one key: what of it depends on the key alone is computed once.
//
// A message of 55 bytes or less costs two compressions, each further 64 bytes one more.
// Not constant in time by claim, as SHA-256 here. Thread: any.
// Source: RFC 2104.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/sha256_blocks.h"

namespace sluice {

class HmacSha256 {
 public:
  explicit HmacSha256(std::span<const std::uint8_t> key);

  std::array<std::uint8_t, 32> of(std::string_view message) const;

  /// For who compresses a message itself: the state that its first block is added to, and what it
  /// then comes to, of the state behind its last block. The padding counts the key's block as
  /// bytes of the message.
  const Sha256State& begin() const { return inner_; }
  Sha256State end(const Sha256State& inner) const;

 private:
  Sha256State inner_, outer_;  // behind the block that the key fills
};

}  // namespace sluice
