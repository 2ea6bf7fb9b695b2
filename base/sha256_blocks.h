// SHA-256 of one block of 64 bytes, in portable code and by the processor's instructions for it,
// and what goes on behind blocks that are done.
//
// What base/sha256.h and base/hmac_sha256.h are made of; apart so that tests reach both. Thread:
// any. Source: FIPS 180-4, sections 5 and 6.2.2.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice {

using Sha256State = std::array<std::uint32_t, 8>;

inline constexpr Sha256State sha256_start{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/// Adds the 64 bytes at `block` to `state`.
void sha256_block_portable(Sha256State& state, const unsigned char* block);

/// The processor has the SHA instructions.
bool has_sha_instructions();
/// The same by them; only where the processor has them.
void sha256_block_instructions(Sha256State& state, const unsigned char* block);

/// By the better of the two.
void sha256_block(Sha256State& state, const unsigned char* block);
/// `rest` and the padding behind `before` bytes, whole blocks, that are in `state`.
Sha256State sha256_end(Sha256State state, std::uint64_t before, std::string_view rest);
std::array<std::uint8_t, 32> sha256_bytes(const Sha256State& state);

}  // namespace sluice
