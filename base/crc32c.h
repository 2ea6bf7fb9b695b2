// CRC-32C (Castagnoli): finds every flip of up to three bits in a message of ordinary size.
//
// No protection against an adversary. Cost: some 60 bytes a nanosecond where the processor
// multiplies without carries in AVX-512's registers, 25 in AVX2's, 7 to 20 where it has the
// instruction alone, else table look-ups. Source: RFC 3720, appendix B.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// How a sum is made, the quickest last: where there is one, there are those before it.
enum class Crc32cBy : std::uint8_t { table, instruction, avx2, avx512 };

/// Of this processor. The others are for tests.
Crc32cBy crc32c_quickest();

/// `before`: the sum of what stands before them.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0,
                     Crc32cBy by = crc32c_quickest());
/// Copies the bytes to `to` and sums what was written there, while it is at hand: what is copied
/// may change meanwhile, what is summed is what was kept.
std::uint32_t copy_with_crc32c(std::span<const std::byte> bytes, std::byte* to,
                               Crc32cBy by = crc32c_quickest());

}  // namespace sluice
