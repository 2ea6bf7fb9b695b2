// SHA-256 of one block of 64 bytes, in portable code and by the processor's instructions for it.
//
// What base/sha256.h is made of; apart so that tests reach both. Thread: any.
// Source: FIPS 180-4, section 6.2.2.
#pragma once

#include <array>
#include <cstdint>

namespace sluice {

using Sha256State = std::array<std::uint32_t, 8>;

/// Adds the 64 bytes at `block` to `state`.
void sha256_block_portable(Sha256State& state, const unsigned char* block);

/// The processor has the SHA instructions.
bool has_sha_instructions();
/// The same by them; only where the processor has them.
void sha256_block_instructions(Sha256State& state, const unsigned char* block);

}  // namespace sluice
