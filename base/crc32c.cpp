#include "base/crc32c.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

// By carry-less multiplication: a sum is the remainder of the bytes, taken as a polynomial, so
// bytes may be replaced by others further on that leave the same remainder. Sixteen bytes, two
// words of 64 bits, are moved on by multiplying each with the remainder of the power of x that it
// is moved by. Source: Gopal et al. 2009, "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction", Intel.
#define SLUICE_CARRY_LESS [[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.2")]]

constexpr std::size_t row = 64, stride = 4 * row;  // four rows at once, as multiplying takes long

/// The remainder of x^exponent.
constexpr std::uint32_t power_of_x(unsigned exponent) {
  std::uint32_t crc = 0x80000000U;
  for (; exponent > 0; --exponent) crc = crc >> 1U ^ ((crc & 1U) != 0 ? polynomial : 0U);
  return crc;
}

/// What moves 16 bytes on by so many bits. The first word stands 64 bits ahead of the second; 33
/// are what a product of reflected words, one of which has 32 bits, is off by.
template <unsigned bits>
SLUICE_CARRY_LESS inline __m512i moving() {
  constexpr std::int64_t first = power_of_x(bits + 64 - 33), second = power_of_x(bits - 33);
  return _mm512_set_epi64(second, first, second, first, second, first, second, first);
}

/// `ahead`, moved on to where `there` stands, and that.
SLUICE_CARRY_LESS inline __m512i joined(__m512i ahead, __m512i moving, __m512i there) {
  constexpr int sum_of_three = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(ahead, moving, 0x00),
                                   _mm512_clmulepi64_epi128(ahead, moving, 0x11), there,
                                   sum_of_three);
}

/// What becomes of the bytes that are summed. Past the caches a copy costs two thirds: memory that
/// is overwritten is not read first. Its place is whole rows of the cache's.
enum class Copy : std::uint8_t { none, through_caches, past_caches };

template <Copy copy>
SLUICE_CARRY_LESS inline __m512i row_at(const std::byte* from, std::byte* to, std::size_t at) {
  const __m512i bytes = _mm512_loadu_si512(from + at);
  if constexpr (copy == Copy::through_caches) _mm512_storeu_si512(to + at, bytes);
  if constexpr (copy == Copy::past_caches)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), bytes);
  return bytes;
}

/// Each byte is read once, so what is summed is what is written. Requires: a stride of bytes.
template <Copy copy>
SLUICE_CARRY_LESS std::uint32_t go_on_by_multiplying(std::uint32_t sum,
                                                     std::span<const std::byte> bytes,
                                                     std::byte* to) {
  const std::byte* const from = bytes.data();
  const __m512i by_stride = moving<8 * stride>(), by_row = moving<8 * row>();
  // The sum so far belongs to the first four bytes.
  const __m512i before = _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, sum);
  __m512i first = _mm512_xor_si512(before, row_at<copy>(from, to, 0));
  __m512i second = row_at<copy>(from, to, row), third = row_at<copy>(from, to, 2 * row);
  __m512i fourth = row_at<copy>(from, to, 3 * row);
  std::size_t at = stride;
  for (; at + stride <= bytes.size(); at += stride) {
    first = joined(first, by_stride, row_at<copy>(from, to, at));
    second = joined(second, by_stride, row_at<copy>(from, to, at + row));
    third = joined(third, by_stride, row_at<copy>(from, to, at + 2 * row));
    fourth = joined(fourth, by_stride, row_at<copy>(from, to, at + 3 * row));
  }
  if constexpr (copy == Copy::past_caches) _mm_sfence();  // before what others are told of it
  second = joined(first, by_row, second);
  third = joined(second, by_row, third);
  fourth = joined(third, by_row, fourth);
  std::array<std::byte, row> left{};
  _mm512_storeu_si512(left.data(), fourth);
  const auto rest = bytes.subspan(at);
  if (copy != Copy::none && !rest.empty()) std::memcpy(to + at, rest.data(), rest.size());
  return go_on_by_instruction(go_on_by_instruction(0, left),
                              copy != Copy::none ? std::span(to + at, rest.size()) : rest);
}

bool multiplies() {
  static const bool can =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0 &&
      __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.2") != 0;
  return can;
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
  if (bytes.size() >= stride && multiplies())
    return go_on_by_multiplying<Copy::none>(sum, bytes, nullptr);
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return go_on_by_instruction(sum, bytes);
#endif
  return go_on_by_table(sum, bytes);
}

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes) {
  return ~go_on_by_table(first_sum, bytes);
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  return ~go_on(~before, bytes);
}

std::uint32_t copy_with_crc32c(std::span<const std::byte> bytes, std::byte* to) {
#if defined(__x86_64__)
  if (bytes.size() >= stride && multiplies()) {
    // What is small may be looked at at once.
    constexpr std::size_t large = 32'768;
    const bool passes = bytes.size() >= large && reinterpret_cast<std::uintptr_t>(to) % row == 0;
    return passes ? ~go_on_by_multiplying<Copy::past_caches>(first_sum, bytes, to)
                  : ~go_on_by_multiplying<Copy::through_caches>(first_sum, bytes, to);
  }
#endif
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
