#include "kernels/amx.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace sluice::kernels {

namespace {

std::atomic<bool> allowed{true};

#if defined(__x86_64__)
/// A process has to be granted the tiles' registers before it uses them.
bool ask() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned amx_bf16 = 1U << 22U, amx_tile = 1U << 24U, avx512_bf16 = 1U << 5U;
  if ((d & amx_bf16) == 0 || (d & amx_tile) == 0 || !has_avx512) return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & avx512_bf16) == 0) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#else
bool ask() { return false; }
#endif

}  // namespace

bool has_amx() {
  static const bool granted = ask();
  return granted && allowed.load(std::memory_order_relaxed);
}

void allow_amx(bool now) { allowed.store(now, std::memory_order_relaxed); }

}  // namespace sluice::kernels
