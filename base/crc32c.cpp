#include "base/crc32c.h"

#include <algorithm>
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
// The instruction takes three cycles and another may begin in each, so three lanes of bytes are
// summed at once, and their sums joined.
constexpr std::size_t lane = 1024;

/// What a sum becomes when a lane of zeros follows, by each of its bytes.
constexpr std::array<std::array<std::uint32_t, 256>, 4> make_lane_table() {
  std::array<std::uint32_t, 32> of_bit{};
  for (unsigned bit = 0; bit < 32; ++bit) {
    std::uint32_t crc = 1U << bit;
    for (std::size_t i = 0; i < lane; ++i) crc = crc >> 8U ^ table[crc & 255U];
    of_bit[bit] = crc;
  }
  std::array<std::array<std::uint32_t, 256>, 4> made{};
  for (unsigned byte = 0; byte < 4; ++byte)
    for (std::uint32_t value = 0; value < 256; ++value)
      for (unsigned bit = 0; bit < 8; ++bit)
        if ((value >> bit & 1U) != 0) made[byte][value] ^= of_bit[8 * byte + bit];
  return made;
}

constexpr std::array<std::array<std::uint32_t, 256>, 4> lane_table = make_lane_table();

std::uint64_t behind_a_lane(std::uint64_t crc) {
  return lane_table[0][crc & 255U] ^ lane_table[1][crc >> 8U & 255U] ^
         lane_table[2][crc >> 16U & 255U] ^ lane_table[3][crc >> 24U & 255U];
}

[[gnu::target("sse4.2")]] std::uint64_t with_word(std::uint64_t crc, const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return __builtin_ia32_crc32di(crc, word);
}

[[gnu::target("sse4.2")]] std::uint32_t go_on_by_instruction(std::uint32_t sum,
                                                             std::span<const std::byte> bytes) {
  std::uint64_t crc = sum;
  std::size_t at = 0;
  for (; at + 3 * lane <= bytes.size(); at += 3 * lane) {
    const std::byte* const from = bytes.data() + at;
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < lane; i += 8) {
      crc = with_word(crc, from + i);
      second = with_word(second, from + lane + i);
      third = with_word(third, from + 2 * lane + i);
    }
    crc = behind_a_lane(behind_a_lane(crc) ^ second) ^ third;
  }
  for (; at + 8 <= bytes.size(); at += 8) crc = with_word(crc, bytes.data() + at);
  auto rest = static_cast<std::uint32_t>(crc);
  for (; at < bytes.size(); ++at)
    rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(bytes[at]));
  return rest;
}
#endif

constexpr std::uint32_t first_sum = 0xffffffffU;

std::uint32_t go_on_by_table(std::uint32_t sum, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes)
    sum = sum >> 8U ^ table[(sum ^ static_cast<std::uint32_t>(byte)) & 255U];
  return sum;
}

/// The sum, not inverted, of what stands before and these.
std::uint32_t go_on(std::uint32_t sum, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return go_on_by_instruction(sum, bytes);
#endif
  return go_on_by_table(sum, bytes);
}

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes) {
  return ~go_on_by_table(first_sum, bytes);
}

std::uint32_t crc32c(std::span<const std::byte> bytes) { return ~go_on(first_sum, bytes); }

std::uint32_t copy_with_crc32c(std::span<const std::byte> bytes, std::byte* to) {
  constexpr std::size_t piece = 49'152;  // whole lanes; smaller copies of new memory are slower
  std::uint32_t sum = first_sum;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const std::size_t size = std::min(piece, bytes.size() - at);
    std::memcpy(to + at, bytes.data() + at, size);
    sum = go_on(sum, {to + at, size});
  }
  return ~sum;
}

}  // namespace sluice
