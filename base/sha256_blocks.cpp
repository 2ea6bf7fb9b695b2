#include "base/sha256_blocks.h"

#include <algorithm>
#include <bit>

#include "base/sha256_words.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace sluice {

namespace {

alignas(16) constexpr std::array<std::uint32_t, 64> constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void sha256_words_portable(Sha256State& state, const Sha256Words& block) {
  std::array<std::uint32_t, 64> w;
  std::ranges::copy(block, w.begin());
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15];
    const std::uint32_t b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  Sha256State s = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t e = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    const std::uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const std::uint32_t one = s[7] + e + choice + constants[i] + w[i];
    const std::uint32_t a = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    const std::uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    s = {one + a + majority, s[0], s[1], s[2], s[3] + one, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < 8; ++i) state[i] += s[i];
}

void sha256_block_portable(Sha256State& state, const unsigned char* block) {
  Sha256Words words;
  for (std::size_t i = 0; i < 16; ++i)
    words[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
               std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
  sha256_words_portable(state, words);
}

#if defined(__x86_64__)

bool has_sha_instructions() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (b >> 29 & 1U) != 0;
}

// The instructions keep the state as (a, b, e, f) and (c, d, g, h), a in the highest place.
template <bool is_in_order>
[[gnu::target("sha,sse4.1"), gnu::always_inline]] inline void compress(Sha256State& state,
                                                                       const void* block) {
  auto* words = reinterpret_cast<__m128i*>(state.data());
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1B);
  const __m128i abef_before = _mm_alignr_epi8(cdab, efgh, 8);
  const __m128i cdgh_before = _mm_blend_epi16(efgh, cdab, 0xF0);
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i w[4];  // the schedule's last sixteen words
  for (std::size_t i = 0; i < 4; ++i) {
    w[i] = _mm_loadu_si128(static_cast<const __m128i*>(block) + i);
    if (!is_in_order) w[i] = _mm_shuffle_epi8(w[i], big_endian);
  }
  __m128i abef = abef_before;
  __m128i cdgh = cdgh_before;
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) {
    const auto* four = reinterpret_cast<const __m128i*>(constants.data()) + i;
    const __m128i sum = _mm_add_epi32(w[i % 4], _mm_load_si128(four));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
    if (i >= 12) continue;
    const __m128i back16 = _mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]);
    const __m128i back7 = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
    w[i % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(back16, back7), w[(i + 3) % 4]);
  }
  abef = _mm_add_epi32(abef, abef_before);
  cdgh = _mm_add_epi32(cdgh, cdgh_before);
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

[[gnu::target("sha,sse4.1")]] void sha256_block_instructions(Sha256State& state,
                                                             const unsigned char* block) {
  compress<false>(state, block);
}

[[gnu::target("sha,sse4.1")]] void sha256_words_instructions(Sha256State& state,
                                                             const Sha256Words& block) {
  compress<true>(state, block.data());
}

#else

bool has_sha_instructions() { return false; }
void sha256_block_instructions(Sha256State& state, const unsigned char* block) {
  sha256_block_portable(state, block);
}
void sha256_words_instructions(Sha256State& state, const Sha256Words& block) {
  sha256_words_portable(state, block);
}

#endif

void sha256_words(Sha256State& state, const Sha256Words& block) {
  static const auto compressed =
      has_sha_instructions() ? sha256_words_instructions : sha256_words_portable;
  compressed(state, block);
}

}  // namespace sluice
