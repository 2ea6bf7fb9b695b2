// One row of x over blocks of 32 values: four blocks of a row of the matrix at a time, each in a
// quarter of a register.
//
// x goes through in two bytes, so sums of a block are exact, as on the other paths.
#include "kernels/quant_row_vnni.h"

#include <cstring>

#include "base/check.h"
#include "kernels/isa.h"

namespace sluice::kernels {

bool row_has_vnni() {
#if defined(__x86_64__)
  static const bool permutes =
      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni");
  return permutes && uses(Isa::vnni);
#else
  return false;
#endif
}

void split_groups(WholeRows& x) {
  split_four_groups(x);
  if (!x.eights.empty()) split_eight_groups(x);
}

#if defined(__x86_64__)

namespace {

constexpr std::size_t fours = 4;  // blocks at a time

/// Whole numbers of four blocks, plus 2^offset, as bytes without a sign: the first sixteen of each
/// block, and the last. What they are multiplied by, the same for each block's four lanes.
struct Four {
  __m512i first, last;
  __m512 scale, minimum;
};
template <BlockType T>
constexpr int offset_bits = T == BlockType::q8_0   ? 7
                            : T == BlockType::q5_0 ? 4
                            : T == BlockType::q4_0 ? 3
                                                   : -1;
template <BlockType T>
constexpr bool is_fifth = T == BlockType::q5_0 || T == BlockType::q5_1;
/// Where the second of two registers that hold four blocks begins.
template <BlockType T>
constexpr int second = T == BlockType::q8_0 ? 64 : static_cast<int>(bytes_of<T>() * fours) - 64;

/// Where a permutation of a register finds each byte: one of two registers takes three times as
/// long.
struct Places {
  std::uint8_t first[64], last[64], scale[32], minimum[32];
  std::uint8_t fifths[2][64];  // the fifth bits of eight whole numbers, in the fourth of each eight
};
/// Of blocks of four bits in the first register alone: it has all but the last block's whole
/// numbers. Of others, blocks 0 and 1 in the first and 2 and 3 in the second; `last`, of eight bits
/// alone, in bytes 18 to 81, then 72 to 135.
template <BlockType T>
constexpr Places made_places() {
  constexpr int block = bytes_of<T>(), head = has_minimum<T>() ? 4 : 2;
  constexpr int ahead = T == BlockType::q4_0 || T == BlockType::q4_1 ? 0 : second<T>;
  Places p{};
  for (int i = 0; i < 64; ++i) {
    const int begin = i / 16 * block - i / 32 * ahead + head;
    p.first[i] = static_cast<std::uint8_t>(begin + i % 16 + (is_fifth<T> ? 4 : 0));
    p.last[i] = static_cast<std::uint8_t>(i / 16 * block + i % 16 + head + 16 - (i < 32 ? 18 : 72));
    for (int of = 0; of < 2; ++of)
      p.fifths[of][i] = static_cast<std::uint8_t>(begin + 2 * of + i % 16 / 8);
  }
  for (int i = 0; i < 32; ++i) {
    p.scale[i] = static_cast<std::uint8_t>(i / 8 * block + i % 2 - i / 16 * ahead);
    p.minimum[i] = static_cast<std::uint8_t>(p.scale[i] + 2);
  }
  return p;
}
template <BlockType T>
alignas(64) constexpr Places places = made_places<T>();

/// Those of 64 bytes at blocks + at that are among the first `bytes`; the others are zeros.
SLUICE_ROW_INLINE __m512i load(const std::uint8_t* blocks, std::size_t bytes, std::size_t at) {
  if (bytes >= at + 64) return _mm512_loadu_si512(blocks + at);
  return _mm512_maskz_loadu_epi8(bytes <= at ? 0 : (1ULL << (bytes - at)) - 1, blocks + at);
}
constexpr __mmask64 lower_half = 0xffffffff, first_three = ~std::uint64_t{0} >> 16U;

/// Bytes of `a` at these places, where `of_a` says so; the others are of `other`.
SLUICE_ROW_INLINE __m512i bytes_at(__m512i a, const std::uint8_t (&at)[64], __mmask64 of_a,
                                   __m512i other) {
  return _mm512_mask_permutexvar_epi8(other, of_a, _mm512_load_si512(at), a);
}
/// The first half's of `a`, the others of `b`.
SLUICE_ROW_INLINE __m512i bytes_at(__m512i a, __m512i b, const std::uint8_t (&at)[64]) {
  const __m512i upper = _mm512_permutexvar_epi8(_mm512_load_si512(at), b);
  return bytes_at(a, at, lower_half, upper);
}
/// f16 numbers at these places: of `a`, or of both as above.
template <BlockType T>
SLUICE_ROW_INLINE __m512 halves(__m512i a, __m512i b, const std::uint8_t (&at)[32]) {
  const __m512i where =
      _mm512_castsi256_si512(_mm256_load_si256(reinterpret_cast<const __m256i*>(at)));
  constexpr __mmask64 of_a = T == BlockType::q4_0 || T == BlockType::q4_1 ? lower_half : 0xffff;
  const __m512i upper = of_a == lower_half ? b : _mm512_permutexvar_epi8(where, b);
  return _mm512_cvtph_ps(
      _mm512_castsi512_si256(_mm512_mask_permutexvar_epi8(upper, of_a, where, a)));
}

/// The fifth bits of the blocks' first sixteen whole numbers, or of their last, as 16 or nothing.
SLUICE_ROW_INLINE __m512i fifths(__m512i a, __m512i b, const std::uint8_t (&at)[64]) {
  // As matrices whose row for bit 4 is a byte of them: of each eight bytes it meets one bit each.
  constexpr __mmask64 fourth = 0x0808080808080808;
  const __m512i where = _mm512_load_si512(at);
  const __m512i upper = _mm512_maskz_permutexvar_epi8(fourth & ~lower_half, where, b);
  const __m512i rows = _mm512_mask_permutexvar_epi8(upper, fourth & lower_half, where, a);
  const __m512i bits = _mm512_set1_epi64(static_cast<std::int64_t>(0x8040201008040201));
  return _mm512_gf2p8affine_epi64_epi8(bits, rows, 0);
}

/// Four blocks, or as many of them as have `bytes`; the others are zeros.
template <BlockType T>
SLUICE_ROW_INLINE Four four_of(const std::uint8_t* blocks, std::size_t bytes) {
  const Places& p = places<T>;
  __m512i a = load(blocks, bytes, 0), b = load(blocks, bytes, second<T>);
  asm("" : "+v"(a), "+v"(b));  // loaded once: they cross lines of the cache
  Four four;
  four.scale = halves<T>(a, b, p.scale);
  if constexpr (has_minimum<T>()) four.minimum = halves<T>(a, b, p.minimum);
  if constexpr (T == BlockType::q8_0) {
    const __m512i sign = _mm512_set1_epi8(-128);
    four.first = _mm512_xor_si512(bytes_at(a, b, p.first), sign);
    four.last =
        _mm512_xor_si512(bytes_at(load(blocks, bytes, 18), load(blocks, bytes, 72), p.last), sign);
    return four;
  }
  // Of blocks of four bits the last one's stand at the end of `b`, and so in their place.
  const __m512i both = is_fifth<T> ? bytes_at(a, b, p.first) : bytes_at(a, p.first, first_three, b);
  four.first = _mm512_and_si512(both, _mm512_set1_epi8(15));
  four.last = _mm512_gf2p8affine_epi64_epi8(both, _mm512_set1_epi64(bits_high), 0);
  if constexpr (is_fifth<T>) {
    four.first = _mm512_or_si512(four.first, fifths(a, b, p.fifths[0]));
    four.last = _mm512_or_si512(four.last, fifths(a, b, p.fifths[1]));
  }
  return four;
}

struct Sums {
  __m512 products, minima;
};
template <BlockType T>
SLUICE_ROW_INLINE void add(const Four& four, const FourGroups& x, Sums& sums) {
  __m512i whole =
      _mm512_dpbusd_epi32(_mm512_setzero_si512(), four.first, _mm512_load_si512(x.high[0]));
  whole = _mm512_dpbusd_epi32(whole, four.last, _mm512_load_si512(x.high[1]));
  whole = _mm512_slli_epi32(whole, 8);
  if constexpr (offset_bits<T> >= 0)
    whole = _mm512_sub_epi32(whole, _mm512_slli_epi32(_mm512_load_si512(x.totals), offset_bits<T>));
  whole = _mm512_dpbusd_epi32(whole, four.first, _mm512_load_si512(x.low[0]));
  whole = _mm512_dpbusd_epi32(whole, four.last, _mm512_load_si512(x.low[1]));
  const __m512 scale = _mm512_mul_ps(four.scale, _mm512_load_ps(x.scales));
  sums.products = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), scale, sums.products);
  if constexpr (has_minimum<T>())
    sums.minima = _mm512_fmadd_ps(four.minimum, _mm512_load_ps(x.sums), sums.minima);
}

template <BlockType T>
SLUICE_ROW_INLINE float product(const std::uint8_t* row, const FourGroups* x, std::size_t groups) {
  constexpr std::size_t bytes = fours * bytes_of<T>(), line = 64;
  Sums sums{_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (std::size_t i = 0; i < groups / fours; ++i, ++x, row += bytes) {
#pragma GCC unroll 2
    for (std::size_t at = 0; at + line <= bytes; at += line) read_ahead(row + at);
    if (i % (line / (bytes % line)) == 0) read_ahead(row + bytes);
    add<T>(four_of<T>(row, bytes), *x, sums);
  }
  if (const std::size_t left = groups % fours; left != 0)
    add<T>(four_of<T>(row, left * bytes_of<T>()), *x, sums);
  return _mm512_reduce_add_ps(_mm512_add_ps(sums.products, sums.minima));
}

/// A row after the other, as memory gives them: two at once are faster from the cache, and from
/// memory a fourth slower.
template <BlockType T>
SLUICE_ROW_VNNI void products(const FewBlockRows& f, const BlockRows& w, std::size_t begin,
                              std::size_t end) {
  const FourGroups* x = f.whole->fours.data();
  const std::size_t bytes = w.row_bytes();
  const std::size_t head = w.interleaved == 0 ? 1 : w.interleaved;
  for (std::size_t first = begin / head * head; first < end; first += head)
    for (std::size_t at = 0; at < head; ++at) {
      const std::size_t r = first + at % 2 * (head / 2) + at / 2;
      if (r >= begin && r < end)
        f.y[r] = product<T>(w.bytes + (first + at) * bytes, x, w.in / group_values);
    }
}

SLUICE_ROW_VNNI void split(const WholeRows& x, std::size_t group, std::size_t lane,
                           FourGroups& to) {
  const __m512i whole = _mm512_loadu_si512(x.whole.data() + group * group_values);
  const __m512i rounded = _mm512_add_epi16(whole, _mm512_set1_epi16(128));
  alignas(32) std::int8_t high[group_values], low[group_values];
  _mm256_store_si256(reinterpret_cast<__m256i*>(high),
                     _mm512_cvtepi16_epi8(_mm512_srai_epi16(rounded, 8)));
  _mm256_store_si256(reinterpret_cast<__m256i*>(low), _mm512_cvtepi16_epi8(whole));
  for (std::size_t half = 0; half < 2; ++half) {
    std::memcpy(to.high[half] + 16 * lane, high + 16 * half, 16);
    std::memcpy(to.low[half] + 16 * lane, low + 16 * half, 16);
  }
  to.totals[4 * lane] = _mm512_reduce_add_epi32(_mm512_madd_epi16(whole, _mm512_set1_epi16(1)));
  to.sums[4 * lane] = x.sums[group];
  for (std::size_t i = 0; i < 4; ++i) to.scales[4 * lane + i] = x.scales[group];
}

}  // namespace

void split_four_groups(WholeRows& x) {
  if (x.scales.size() % fours != 0) x.fours.back() = {};
  for (std::size_t group = 0; group < x.scales.size(); ++group)
    split(x, group, group % fours, x.fours[group / fours]);
}

void row_products_vnni(const FewBlockRows& f, const BlockRows& w, std::size_t begin,
                       std::size_t end) {
  with_quantised(w.type, [&]<BlockType T>() {
    if constexpr (values_of<T>() == group_values) products<T>(f, w, begin, end);
  });
}

#else

void split_four_groups(WholeRows&) { SLUICE_CHECK(false, "no such machine"); }
void row_products_vnni(const FewBlockRows&, const BlockRows&, std::size_t, std::size_t) {
  SLUICE_CHECK(false, "no such machine");
}

#endif

}  // namespace sluice::kernels
