// SHA-256 of one block that is given as its sixteen words, as what was computed before it gives
// them: no bytes are put in order. Thread: any. Source: FIPS 180-4, section 6.2.2.
#pragma once

#include "base/sha256_blocks.h"

namespace sluice {

using Sha256Words = std::array<std::uint32_t, 16>;

/// Adds the block to `state`, by the better of the two below.
void sha256_words(Sha256State& state, const Sha256Words& block);
void sha256_words_portable(Sha256State& state, const Sha256Words& block);
/// Only where the processor has the SHA instructions.
void sha256_words_instructions(Sha256State& state, const Sha256Words& block);

}  // namespace sluice
