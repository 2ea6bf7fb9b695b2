// Functions without branches or calls, so that loops over them are vectorised. For kernels only.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/isa.h"

namespace sluice::kernels {

/// exp(x) to 2 units in the last place. Source: Cody and Waite 1980 (argument reduction), Taylor
/// on [-ln2/2, ln2/2].
[[gnu::always_inline]] inline float exp_f32(float x) {
  x = x < -87.0F ? -87.0F : (x > 88.0F ? 88.0F : x);
  constexpr float magic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  const float shifted = x * 1.44269504088896341F + magic;
  const float n = shifted - magic;
  const float r = (x - n * 0.693145751953125F) - n * 1.42860682030941723e-6F;
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
  return p * std::bit_cast<float>(exponent);
}

[[gnu::always_inline]] inline float widen(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
[[gnu::always_inline]] inline float widen(float value) { return value; }
[[gnu::always_inline]] inline float widen(std::int8_t value) { return static_cast<float>(value); }

/// Rounds to nearest even. No NaN comes here.
[[gnu::always_inline]] inline std::uint16_t narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace sluice::kernels
