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

// What multiplies takes four rows of the cache's at once, for a product takes long.
constexpr std::size_t row = 64, stride = 4 * row;

/// What becomes of the bytes that are summed. Past the caches a copy costs two thirds: memory that
/// is overwritten is not read first. Its place is whole rows of the cache's.
enum class Copy : std::uint8_t { none, through_caches, past_caches };

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

/// The remainder of x^exponent.
constexpr std::uint32_t power_of_x(unsigned exponent) {
  std::uint32_t crc = 0x80000000U;
  for (; exponent > 0; --exponent) crc = crc >> 1U ^ ((crc & 1U) != 0 ? polynomial : 0U);
  return crc;
}

/// What moves 16 bytes on by so many bits, a word each. The first word stands 64 bits ahead of the
/// second; 33 are what a product of reflected words, one of which has 32 bits, is off by.
template <unsigned bits>
constexpr std::int64_t first_moving = power_of_x(bits + 64 - 33);
template <unsigned bits>
constexpr std::int64_t second_moving = power_of_x(bits - 33);

/// What is left of the bytes that were summed, to be summed before those behind them.
struct Left {
  std::array<std::byte, row> bytes{};
  std::size_t summed = 0;
};

#define SLUICE_AVX512 [[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.2")]]

template <unsigned bits>
SLUICE_AVX512 inline __m512i moving_512() {
  constexpr std::int64_t first = first_moving<bits>, second = second_moving<bits>;
  return _mm512_set_epi64(second, first, second, first, second, first, second, first);
}

/// `ahead`, moved on to where `there` stands, and that.
SLUICE_AVX512 inline __m512i joined(__m512i ahead, __m512i moving, __m512i there) {
  constexpr int sum_of_three = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(ahead, moving, 0x00),
                                   _mm512_clmulepi64_epi128(ahead, moving, 0x11), there,
                                   sum_of_three);
}

template <Copy copy>
SLUICE_AVX512 inline __m512i load_512(const std::byte* from, std::byte* to, std::size_t at) {
  const __m512i bytes = _mm512_loadu_si512(from + at);
  if constexpr (copy == Copy::through_caches) _mm512_storeu_si512(to + at, bytes);
  if constexpr (copy == Copy::past_caches)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), bytes);
  return bytes;
}

/// As many whole strides as there are, of which there is one at least.
template <Copy copy>
SLUICE_AVX512 Left by_avx512(std::uint32_t sum, std::span<const std::byte> bytes, std::byte* to) {
  const std::byte* const from = bytes.data();
  const __m512i by_stride = moving_512<8 * stride>(), by_row = moving_512<8 * row>();
  // The sum so far belongs to the first four bytes.
  const __m512i before = _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, sum);
  __m512i first = _mm512_xor_si512(before, load_512<copy>(from, to, 0));
  __m512i second = load_512<copy>(from, to, row), third = load_512<copy>(from, to, 2 * row);
  __m512i fourth = load_512<copy>(from, to, 3 * row);
  std::size_t at = stride;
  for (; at + stride <= bytes.size(); at += stride) {
    first = joined(first, by_stride, load_512<copy>(from, to, at));
    second = joined(second, by_stride, load_512<copy>(from, to, at + row));
    third = joined(third, by_stride, load_512<copy>(from, to, at + 2 * row));
    fourth = joined(fourth, by_stride, load_512<copy>(from, to, at + 3 * row));
  }
  second = joined(first, by_row, second);
  third = joined(second, by_row, third);
  fourth = joined(third, by_row, fourth);
  Left left{.summed = at};
  _mm512_storeu_si512(left.bytes.data(), fourth);
  return left;
}

#define SLUICE_AVX2 [[gnu::target("avx2,vpclmulqdq,pclmul,sse4.2")]]

template <unsigned bits>
SLUICE_AVX2 inline __m256i moving_256() {
  constexpr std::int64_t first = first_moving<bits>, second = second_moving<bits>;
  return _mm256_set_epi64x(second, first, second, first);
}

SLUICE_AVX2 inline __m256i joined(__m256i ahead, __m256i moving, __m256i there) {
  const __m256i first = _mm256_clmulepi64_epi128(ahead, moving, 0x00);
  const __m256i second = _mm256_clmulepi64_epi128(ahead, moving, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(first, second), there);
}

template <Copy copy>
SLUICE_AVX2 inline __m256i load_256(const std::byte* from, std::byte* to, std::size_t at) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
  if constexpr (copy == Copy::through_caches)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), bytes);
  if constexpr (copy == Copy::past_caches)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), bytes);
  return bytes;
}

/// The same by halves of rows.
template <Copy copy>
SLUICE_AVX2 Left by_avx2(std::uint32_t sum, std::span<const std::byte> bytes, std::byte* to) {
  constexpr std::size_t half = row / 2, count = stride / half;
  const std::byte* const from = bytes.data();
  const __m256i by_stride = moving_256<8 * stride>(), by_row = moving_256<8 * row>();
  __m256i halves[count];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < count; ++i) halves[i] = load_256<copy>(from, to, i * half);
  halves[0] = _mm256_xor_si256(halves[0], _mm256_set_epi64x(0, 0, 0, sum));
  std::size_t at = stride;
  for (; at + stride <= bytes.size(); at += stride)
#pragma GCC unroll 8
    for (std::size_t i = 0; i < count; ++i)
      halves[i] = joined(halves[i], by_stride, load_256<copy>(from, to, at + i * half));
#pragma GCC unroll 8
  for (std::size_t i = 0; i + 2 < count; ++i)
    halves[i + 2] = joined(halves[i], by_row, halves[i + 2]);
  Left left{.summed = at};
  for (std::size_t i = 0; i < 2; ++i)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(left.bytes.data() + i * half),
                        halves[count - 2 + i]);
  return left;
}

/// Each byte is read once, so what is summed is what is written. Requires: a stride of bytes.
template <Copy copy>
std::uint32_t go_on_by_multiplying(std::uint32_t sum, std::span<const std::byte> bytes,
                                   std::byte* to, Crc32cBy by) {
  const Left left =
      by == Crc32cBy::avx512 ? by_avx512<copy>(sum, bytes, to) : by_avx2<copy>(sum, bytes, to);
  if constexpr (copy == Copy::past_caches) _mm_sfence();  // before what others are told of it
  const auto rest = bytes.subspan(left.summed);
  if (copy != Copy::none && !rest.empty()) std::memcpy(to + left.summed, rest.data(), rest.size());
  return go_on_by_instruction(
      go_on_by_instruction(0, left.bytes),
      copy != Copy::none ? std::span<const std::byte>(to + left.summed, rest.size()) : rest);
}
#endif

constexpr std::uint32_t first_sum = 0xffffffffU;

std::uint32_t go_on_by_table(std::uint32_t sum, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes)
    sum = sum >> 8U ^ table[(sum ^ static_cast<std::uint32_t>(byte)) & 255U];
  return sum;
}

template <Copy copy>
std::uint32_t go_on(std::uint32_t sum, std::span<const std::byte> bytes, std::byte* to,
                    Crc32cBy by) {
#if defined(__x86_64__)
  if (by > Crc32cBy::instruction) return go_on_by_multiplying<copy>(sum, bytes, to, by);
#endif
  constexpr std::size_t piece = 49'152;  // whole lanes; smaller copies of new memory are slower
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    if (copy != Copy::none) {
      std::memcpy(to + at, part.data(), part.size());
      part = {to + at, part.size()};
    }
#if defined(__x86_64__)
    sum = by == Crc32cBy::table ? go_on_by_table(sum, part) : go_on_by_instruction(sum, part);
#else
    sum = go_on_by_table(sum, part);
#endif
  }
  return sum;
}

/// What multiplies takes a stride at least.
Crc32cBy fitting(Crc32cBy by, std::size_t bytes) {
  return bytes < stride && by > Crc32cBy::instruction ? Crc32cBy::instruction : by;
}

}  // namespace

Crc32cBy crc32c_quickest() {
#if defined(__x86_64__)
  static const Crc32cBy quickest = [] {
    if (__builtin_cpu_supports("sse4.2") == 0) return Crc32cBy::table;
    if (__builtin_cpu_supports("vpclmulqdq") == 0 || __builtin_cpu_supports("pclmul") == 0 ||
        __builtin_cpu_supports("avx2") == 0)
      return Crc32cBy::instruction;
    return __builtin_cpu_supports("avx512f") != 0 ? Crc32cBy::avx512 : Crc32cBy::avx2;
  }();
  return quickest;
#else
  return Crc32cBy::table;
#endif
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before, Crc32cBy by) {
  return ~go_on<Copy::none>(~before, bytes, nullptr, fitting(by, bytes.size()));
}

std::uint32_t copy_with_crc32c(std::span<const std::byte> bytes, std::byte* to, Crc32cBy by) {
  // What is small may be looked at at once.
  constexpr std::size_t large = 32'768;
  by = fitting(by, bytes.size());
  const bool passes = bytes.size() >= large && reinterpret_cast<std::uintptr_t>(to) % row == 0;
  return passes ? ~go_on<Copy::past_caches>(first_sum, bytes, to, by)
                : ~go_on<Copy::through_caches>(first_sum, bytes, to, by);
}

}  // namespace sluice
