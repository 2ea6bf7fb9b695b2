// SHA-256, for names that must be the same in every program that computes them.
//
// Not for secrets: no constant-time claim. Source: FIPS 180-4.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice {

std::array<std::uint8_t, 32> sha256(std::string_view bytes);

/// The first eight bytes, most significant first: as hexadecimal, the first 16 digits.
std::uint64_t sha256_prefix(std::string_view bytes);

}  // namespace sluice
