#include "base/sha256.h"

#include <bit>
#include <cstring>

#include "base/sha256_blocks.h"

namespace sluice {
namespace {

/// In one store: byte by byte, what loads sixteen of them next would wait.
void store_big_endian(std::uint64_t number, unsigned char* to) {
  if constexpr (std::endian::native == std::endian::little) number = __builtin_bswap64(number);
  std::memcpy(to, &number, sizeof number);
}

}  // namespace

void sha256_block(Sha256State& state, const unsigned char* block) {
  static const auto compress =
      has_sha_instructions() ? sha256_block_instructions : sha256_block_portable;
  compress(state, block);
}

Sha256State sha256_end(Sha256State state, std::uint64_t before, std::string_view rest) {
  const auto* data = reinterpret_cast<const unsigned char*>(rest.data());
  std::size_t left = rest.size();
  for (; left >= 64; left -= 64, data += 64) sha256_block(state, data);
  std::array<unsigned char, 128> tail{};
  if (left != 0) std::memcpy(tail.data(), data, left);
  tail[left] = 0x80;
  const std::size_t size = left < 56 ? 64 : 128;
  store_big_endian((before + rest.size()) * 8, tail.data() + size - 8);
  sha256_block(state, tail.data());
  if (size == 128) sha256_block(state, tail.data() + 64);
  return state;
}

std::array<std::uint8_t, 32> sha256_bytes(const Sha256State& state) {
  std::array<std::uint8_t, 32> out;
  for (std::size_t i = 0; i < 4; ++i)
    store_big_endian(std::uint64_t{state[2 * i]} << 32 | state[2 * i + 1], out.data() + 8 * i);
  return out;
}

std::array<std::uint8_t, 32> sha256(std::string_view bytes) {
  return sha256_bytes(sha256_end(sha256_start, 0, bytes));
}

std::uint64_t sha256_prefix(std::string_view bytes) {
  const Sha256State state = sha256_end(sha256_start, 0, bytes);
  return std::uint64_t{state[0]} << 32 | state[1];
}

}  // namespace sluice
