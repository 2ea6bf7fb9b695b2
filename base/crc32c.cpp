#include "base/crc32c.h"

#include <array>
#include <cstring>

namespace sluice {

namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // reflected

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1U ^ ((crc & 1U) != 0 ? polynomial : 0U);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> table = make_table();

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes) {
  std::uint64_t crc = 0xffffffffU;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (; at < bytes.size(); ++at)
    rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(bytes[at]));
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const std::byte byte : bytes)
    crc = crc >> 8U ^ table[(crc ^ static_cast<std::uint32_t>(byte)) & 255U];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_by_instruction(bytes);
#endif
  return crc32c_by_table(bytes);
}

}  // namespace sluice
