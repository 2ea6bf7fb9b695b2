// exp and activations, sixteen at a time: GCC's own vectoriser keeps the portable
// loops at a quarter of this. For kernels only; ask `uses(Isa::avx512)` first.
#pragma once

#include <cstddef>

#include "kernels/elementwise.h"
#include "kernels/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sluice::kernels {

#if defined(__x86_64__)

/// To 2 units in the last place. Source: as `exp_f32`.
SLUICE_AVX512 inline __m512 exp16(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341F)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145751953125F), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860682030941723e-6F), r);
  __m512 p = _mm512_set1_ps(1.0F / 5040);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 720));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 120));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 24));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 6));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, n);
}

/// v / (1 + exp(-u)); u is clamped, so that nothing overflows.
SLUICE_AVX512 inline __m512 times_sigmoid16(__m512 v, __m512 u) {
  const __m512 low = _mm512_max_ps(u, _mm512_set1_ps(-87.0F));
  const __m512 d =
      _mm512_add_ps(_mm512_set1_ps(1.0F), exp16(_mm512_sub_ps(_mm512_setzero_ps(), low)));
  // One step of Newton makes the 14 bits of the estimate 23.
  __m512 q = _mm512_rcp14_ps(d);
  q = _mm512_mul_ps(q, _mm512_fnmadd_ps(d, q, _mm512_set1_ps(2.0F)));
  return _mm512_mul_ps(v, q);
}

/// Not for the erf form.
SLUICE_AVX512 inline __m512 activated16(Activation kind, __m512 v) {
  if (kind == Activation::silu) return times_sigmoid16(v, v);
  const __m512 cube = _mm512_mul_ps(_mm512_mul_ps(v, v), v);
  const __m512 u = _mm512_fmadd_ps(cube, _mm512_set1_ps(0.044715F), v);
  return times_sigmoid16(v, _mm512_mul_ps(u, _mm512_set1_ps(2.0F * 0.7978845608028654F)));
}

SLUICE_AVX512 inline __mmask16 tail_mask(std::size_t count) {
  return static_cast<__mmask16>((1U << count) - 1U);
}

#endif

}  // namespace sluice::kernels
