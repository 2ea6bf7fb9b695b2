// What the products of one row over blocks share: what they are compiled for.
#pragma once

#include "kernels/matvec.h"
#include "kernels/quant_plain.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define SLUICE_ROW_VNNI \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi,gfni,avx2,fma,f16c")]]
#define SLUICE_ROW_INLINE SLUICE_ROW_VNNI [[gnu::always_inline]] inline

namespace sluice::kernels {

/// For `_mm512_gf2p8affine_epi64_epi8`, which makes each bit of a byte of bits of a byte: the lower
/// four bits where they are, and the upper four in their place.
constexpr std::uint64_t bits_low = 0x0102040800000000, bits_high = 0x1020408000000000;
/// Bit `from` as bit `to`.
constexpr std::uint64_t bit_moved(unsigned from, unsigned to) {
  return std::uint64_t{1} << (8 * (7 - to) + from);
}

}  // namespace sluice::kernels
#endif
