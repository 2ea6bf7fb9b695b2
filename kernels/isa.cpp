#include "kernels/isa.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace sluice::kernels {

namespace {

std::atomic<Isa> limit{Isa::amx};

#if defined(__x86_64__)
/// A process has to be granted the tiles' registers before it uses them.
bool tiles_granted() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned amx_bf16 = 1U << 22U, amx_tile = 1U << 24U, amx_int8 = 1U << 25U;
  constexpr unsigned all = amx_bf16 | amx_tile | amx_int8;
  if ((d & all) != all) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

/// F16C, by a name that not every compiler knows.
bool widens_halves() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & 1U << 29U) != 0;
}

/// A question of speed, so it is the processor's name that says it and nothing is measured: a row's
/// bits may not depend on that. AMD since Zen 5: two instructions a cycle, as of f32's. Zen 4 takes
/// two cycles for one of them.
bool multiplies_bf16_fast() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__builtin_cpu_is("amd") || __get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned zen5 = 0x1a;
  return (a >> 8U & 0xfU) + (a >> 20U & 0xffU) >= zen5;
}

Isa best() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !widens_halves())
    return Isa::portable;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
    return Isa::avx2;
  if (!__builtin_cpu_supports("avx512vnni")) return Isa::avx512;
  if (!__builtin_cpu_supports("avx512bf16")) return Isa::vnni;
  if (tiles_granted()) return Isa::amx;
  return multiplies_bf16_fast() ? Isa::bf16_fast : Isa::bf16;
}
#else
Isa best() { return Isa::portable; }
#endif

}  // namespace

std::string_view name_of(Isa isa) {
  constexpr std::string_view names[] = {"portable", "avx2",      "avx512", "vnni",
                                        "bf16",     "bf16-fast", "amx"};
  return names[static_cast<std::size_t>(isa)];
}

bool has(Isa isa) {
  static const Isa found = best();
  return isa <= found;
}

bool uses(Isa isa) { return isa <= isa_limit() && has(isa); }

void limit_isa(Isa most) { limit.store(most, std::memory_order_relaxed); }

Isa isa_limit() { return limit.load(std::memory_order_relaxed); }

}  // namespace sluice::kernels
