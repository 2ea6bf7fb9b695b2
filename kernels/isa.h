// Which of the processor's instruction sets kernels use: the best there is, or less for tests.
//
// Sets are ordered: a processor that has one has those before it. A loop is written once and
// compiled for each width of the registers (`wide`); kernels in intrinsics ask `uses`. What a
// kernel takes is chosen when it runs, never by the compiler's -march, so that one binary runs
// anywhere and tests reach every path: they set `limit_isa` to each of `isa_levels` in turn.
// Thread: any; the limit is changed while no kernel runs.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::kernels {

enum class Isa : std::uint8_t {
  portable,
  avx2,       // with FMA and F16C
  avx512,     // F, BW, VL and DQ
  vnni,       // AVX-512 VNNI: products of bytes
  bf16,       // AVX-512 BF16
  bf16_fast,  // at twice the rate of f32 (AMD since Zen 5); on tiles nobody asks
  amx,        // tiles of bf16 and of bytes
};

inline constexpr Isa isa_levels[] = {Isa::portable, Isa::avx2,      Isa::avx512, Isa::vnni,
                                     Isa::bf16,     Isa::bf16_fast, Isa::amx};

std::string_view name_of(Isa isa);
/// The processor has it, and the operating system lends it.
bool has(Isa isa);
/// It has it, and the limit allows it.
bool uses(Isa isa);
/// For tests and benches: nothing above `most`, as on a processor without it.
void limit_isa(Isa most);
Isa isa_limit();

// GCC takes a body without a target of its own into a function with one.
#define SLUICE_LOOP [[gnu::always_inline]] inline

#if defined(__x86_64__)
#define SLUICE_AVX2 [[gnu::target("avx2,fma")]]
#define SLUICE_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]]

template <auto loop, typename... Args>
SLUICE_AVX2 auto loop_avx2(Args... args) {
  return loop(args...);
}
/// 256 bits: what a core gives up in speed while it uses 512, a loop as short as these loses.
template <auto loop, typename... Args>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,prefer-vector-width=256")]] auto
loop_avx512(Args... args) {
  return loop(args...);
}
#endif

/// Runs a SLUICE_LOOP in the copy for the widest registers that may be used.
template <auto loop, typename... Args>
auto wide(Args... args) {
#if defined(__x86_64__)
  if (uses(Isa::avx512)) return loop_avx512<loop>(args...);
  if (uses(Isa::avx2)) return loop_avx2<loop>(args...);
#endif
  return loop(args...);
}

}  // namespace sluice::kernels
