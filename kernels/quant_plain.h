// One group of 32 whole numbers out of each block type, and what they are multiplied by. Plain code
// that says what a type means; the paths with wider registers are compared with it.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/tensor.h"
#include "kernels/quant.h"

namespace sluice::kernels {

constexpr std::size_t group_values = 32;

/// value = scale * whole + minimum; the first and the last sixteen have scales of their own.
struct GroupScales {
  float low = 0, high = 0, minimum = 0;
};

/// Scales and minima of a block's groups: one, or eight of a block of 256.
struct BlockScales {
  GroupScales group[8];
};

[[gnu::always_inline]] inline float half_at(const std::uint8_t* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return f32_from_f16(bits);
}

/// Q4_K and Q5_K: eight scales, then eight minima, of six bits each in twelve bytes.
[[gnu::always_inline]] inline void six_bit_scales(const std::uint8_t* from, std::uint8_t to[16]) {
  std::uint32_t a = 0, b = 0, c = 0;
  std::memcpy(&a, from, 4);
  std::memcpy(&b, from + 4, 4);
  std::memcpy(&c, from + 8, 4);
  const std::uint32_t made[4] = {a & 0x3f3f3f3fU, (c & 0x0f0f0f0fU) | (a >> 6 & 0x03030303U) << 4,
                                 b & 0x3f3f3f3fU,
                                 (c >> 4 & 0x0f0f0f0fU) | (b >> 6 & 0x03030303U) << 4};
  std::memcpy(to, made, sizeof made);
}

/// `d` and `m`: the block's one or two f16 numbers, widened.
template <BlockType T>
[[gnu::always_inline]] inline void scales_of(const std::uint8_t* block, float d, float m,
                                             BlockScales& to) {
  if constexpr (T == BlockType::q4_k || T == BlockType::q5_k) {
    std::uint8_t six[16];
    six_bit_scales(block + 4, six);
    for (int g = 0; g < 8; ++g) {
      const float scale = d * six[g];
      to.group[g] = {scale, scale, -m * six[8 + g]};
    }
  } else if constexpr (T == BlockType::q6_k) {
    const auto* scales = reinterpret_cast<const std::int8_t*>(block + 192);
    for (int g = 0; g < 8; ++g) to.group[g] = {d * scales[2 * g], d * scales[2 * g + 1], 0};
  } else {
    to.group[0] = {d, d, m};
  }
}

/// Where the f16 numbers of a block stand; the second is -1 where there is none.
template <BlockType T>
constexpr int first_half() {
  return T == BlockType::q6_k ? 208 : 0;
}
template <BlockType T>
constexpr bool has_minimum() {
  return T == BlockType::q4_1 || T == BlockType::q5_1 || T == BlockType::q4_k ||
         T == BlockType::q5_k;
}

/// The whole numbers of group `g`.
template <BlockType T>
[[gnu::always_inline]] inline void wholes_of(const std::uint8_t* block, std::size_t g,
                                             std::int8_t to[group_values]) {
  for (std::size_t i = 0; i < group_values; ++i) {
    const std::size_t half = i % 16;
    int whole = 0;
    if constexpr (T == BlockType::q8_0) {
      whole = static_cast<std::int8_t>(block[2 + i]);
    } else if constexpr (T == BlockType::q4_0 || T == BlockType::q4_1) {
      const int byte = block[(T == BlockType::q4_0 ? 2 : 4) + half];
      whole = (i < 16 ? byte & 15 : byte >> 4) - (T == BlockType::q4_0 ? 8 : 0);
    } else if constexpr (T == BlockType::q5_0 || T == BlockType::q5_1) {
      constexpr std::size_t bits = T == BlockType::q5_0 ? 2 : 4;
      const int byte = block[bits + 4 + half];
      const int fifth = block[bits + i / 8] >> i % 8 & 1;
      whole = ((i < 16 ? byte & 15 : byte >> 4) | fifth << 4) - (T == BlockType::q5_0 ? 16 : 0);
    } else if constexpr (T == BlockType::q4_k || T == BlockType::q5_k) {
      const int byte = block[(T == BlockType::q4_k ? 16 : 48) + g / 2 * 32 + i];
      whole = g % 2 == 0 ? byte & 15 : byte >> 4;
      if constexpr (T == BlockType::q5_k) whole |= (block[16 + i] >> g & 1) << 4;
    } else if constexpr (T == BlockType::q6_k) {
      const int byte = block[g / 4 * 64 + g % 2 * 32 + i];
      const int two = block[128 + g / 4 * 32 + i] >> g % 4 * 2 & 3;
      whole = ((g % 4 < 2 ? byte & 15 : byte >> 4) | two << 4) - 32;
    }
    to[i] = static_cast<std::int8_t>(whole);
  }
}

/// Calls `body.template operator()<T>()` for a quantised type.
template <typename Body>
void with_quantised(BlockType type, const Body& body) {
  switch (type) {
    case BlockType::q8_0:
      return body.template operator()<BlockType::q8_0>();
    case BlockType::q4_0:
      return body.template operator()<BlockType::q4_0>();
    case BlockType::q4_1:
      return body.template operator()<BlockType::q4_1>();
    case BlockType::q5_0:
      return body.template operator()<BlockType::q5_0>();
    case BlockType::q5_1:
      return body.template operator()<BlockType::q5_1>();
    case BlockType::q4_k:
      return body.template operator()<BlockType::q4_k>();
    case BlockType::q5_k:
      return body.template operator()<BlockType::q5_k>();
    case BlockType::q6_k:
      return body.template operator()<BlockType::q6_k>();
    case BlockType::f32:
    case BlockType::f16:
    case BlockType::bf16:
      return;
  }
}

template <BlockType T>
constexpr std::size_t values_of() {
  return T == BlockType::q4_k || T == BlockType::q5_k || T == BlockType::q6_k ? 256 : 32;
}
template <BlockType T>
constexpr std::size_t bytes_of() {
  switch (T) {
    case BlockType::q8_0:
      return 34;
    case BlockType::q4_0:
      return 18;
    case BlockType::q4_1:
      return 20;
    case BlockType::q5_0:
      return 22;
    case BlockType::q5_1:
      return 24;
    case BlockType::q4_k:
      return 144;
    case BlockType::q5_k:
      return 176;
    default:
      return 210;
  }
}

/// Fills `fours` and `eights` from the rest. Requires: VNNI.
void split_groups(WholeRows& x);
void split_four_groups(WholeRows& x);
void split_eight_groups(WholeRows& x);
/// True where one row of x may be multiplied by what follows, over blocks of any quantised type.
bool row_has_vnni();
/// Blocks of 32, four at a time (`fours`), or of 256 (`eights`).
void row_products_vnni(const FewBlockRows& f, const BlockRows& w, std::size_t begin,
                       std::size_t end);
void row_products_large_vnni(const FewBlockRows& f, const BlockRows& w, std::size_t begin,
                             std::size_t end);
/// The AVX2 path's halves of `block_products` and `read_blocks`. Requires: `uses` it.
void block_products_avx2(const FewBlockRows& f, const BlockRows& w, std::size_t begin,
                         std::size_t end);
void read_blocks_avx2(BlockType type, const std::uint8_t* row, std::span<float> to);

}  // namespace sluice::kernels
