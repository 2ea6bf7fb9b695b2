#include "base/sha256.h"

#include <cstring>

#include "base/sha256_blocks.h"

namespace sluice {

namespace {

Sha256State digest(std::string_view bytes) {
  static const auto compress =
      has_sha_instructions() ? sha256_block_instructions : sha256_block_portable;
  Sha256State state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  for (; left >= 64; left -= 64, data += 64) compress(state, data);
  std::array<unsigned char, 128> tail{};
  if (left != 0) std::memcpy(tail.data(), data, left);
  tail[left] = 0x80;
  const std::size_t size = left < 56 ? 64 : 128;
  const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
  for (std::size_t i = 0; i < 8; ++i)
    tail[size - 1 - i] = static_cast<unsigned char>(bits >> (8 * i));
  compress(state, tail.data());
  if (size == 128) compress(state, tail.data() + 64);
  return state;
}

}  // namespace

std::array<std::uint8_t, 32> sha256(std::string_view bytes) {
  const Sha256State state = digest(bytes);
  std::array<std::uint8_t, 32> out;
  for (std::size_t i = 0; i < 32; ++i)
    out[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

std::uint64_t sha256_prefix(std::string_view bytes) {
  const Sha256State state = digest(bytes);
  return std::uint64_t{state[0]} << 32 | state[1];
}

}  // namespace sluice
