// CRC-32C (Castagnoli): finds every flip of up to three bits in a message of ordinary size.
//
// No protection against an adversary. Cost: some 60 bytes a nanosecond where the processor
// multiplies without carries (AVX-512), 7 to 20 where it has the instruction alone, else table
// look-ups. Source: RFC 3720, appendix B.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// `before`: the sum of what stands before them.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
/// Copies the bytes to `to` and sums what was written there, while it is at hand: what is copied
/// may change meanwhile, what is summed is what was kept.
std::uint32_t copy_with_crc32c(std::span<const std::byte> bytes, std::byte* to);
/// The same, without the processor's instruction: for tests and other processors.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes);

}  // namespace sluice
