#include "bench/peak.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "engine/checkpoint/weights.h"
#include "kernels/amx.h"
#include "kernels/huge_vector.h"
#include "kernels/parallel.h"

namespace sluice {

namespace {

/// The median rate of a few runs of `flops`.
template <typename Work>
double rate_of(double flops, const Work& work) {
  std::vector<double> rates;
  for (int run = 0; run < 6; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (run > 0) rates.push_back(flops / took.count());  // the first warms up
  }
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

#if defined(__x86_64__)
constexpr std::size_t rounds = 200'000;
constexpr std::size_t chains = 12;  // independent sums, so that none waits for the last

[[gnu::target("avx512f,avx512vnni")]] void multiply_wholes_vnni() {
  __m512i sums[chains] = {};
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));  // as if they differed
  __m512i x = _mm512_set1_epi32(0x00010001);
  for (std::size_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(x));
#pragma GCC unroll 12
    for (__m512i& sum : sums) sum = _mm512_dpwssd_epi32(sum, x, x);
  }
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));
}

[[gnu::target("avx2")]] void multiply_wholes_avx2() {
  __m256i sums[chains] = {};
  for (__m256i& sum : sums) asm volatile("" : "+x"(sum));
  __m256i x = _mm256_set1_epi32(0x00010001);
  for (std::size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m256i& sum : sums) {
      asm volatile("" : "+x"(x));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, x));
    }
  }
  for (__m256i& sum : sums) asm volatile("" : "+x"(sum));
}

SLUICE_AMX void multiply_registers() {
  const kernels::amx::Tiles tiles;
  alignas(64) static const std::uint16_t values[kernels::amx::tile] = {};
  kernels::amx::written();
  _tile_loadd(4, values, 64);
  _tile_loadd(5, values, 64);
  _tile_loadd(6, values, 64);
  _tile_loadd(7, values, 64);
  for (std::size_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}
#endif

/// oneDNN's own threads, which our kernels keep it from, while this lives.
struct LibraryThreads {
  LibraryThreads() { ::omp_set_num_threads(::omp_get_num_procs()); }
  ~LibraryThreads() { ::omp_set_num_threads(before); }
  const int before = ::omp_get_max_threads();
};

}  // namespace

double tile_rate() {
#if defined(__x86_64__)
  if (!kernels::uses(kernels::Isa::amx)) return 0;
  const std::size_t threads = kernels::thread_count();
  constexpr double flops_each = 4.0 * 2 * 16 * 16 * 32;
  return rate_of(static_cast<double>(threads * rounds) * flops_each, [&] {
    kernels::parallel_for(threads, 1, [](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) multiply_registers();
    });
  });
#else
  return 0;
#endif
}

double whole_rate() {
#if defined(__x86_64__)
  const bool vnni = kernels::uses(kernels::Isa::vnni);
  if (!vnni && !kernels::uses(kernels::Isa::avx2)) return 0;
  const std::size_t threads = kernels::thread_count();
  const double each = static_cast<double>(rounds * chains) * 2 * (vnni ? 32 : 16);
  return rate_of(static_cast<double>(threads) * each, [&] {
    kernels::parallel_for(threads, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        vnni ? multiply_wholes_vnni() : multiply_wholes_avx2();
    });
  });
#else
  return 0;
#endif
}

double library_rate() {
  using dnnl::memory;
  constexpr memory::dim rows = 512, width = 4096;
  const kernels::HugeVector<std::uint16_t> a(rows * width, 0x3f80), b(width * width, 0x3f80);
  kernels::HugeVector<float> c(rows * width);
  const LibraryThreads threads;
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    constexpr auto bf16 = memory::data_type::bf16;
    const memory::desc ad({rows, width}, bf16, memory::format_tag::ab);
    const memory::desc bd({width, width}, bf16, memory::format_tag::ba);
    const memory::desc cd({rows, width}, memory::data_type::f32, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul product(dnnl::matmul::primitive_desc(engine, ad, bd, cd));
#else
    const dnnl::matmul product(
        dnnl::matmul::primitive_desc(dnnl::matmul::desc(ad, bd, cd), engine));
#endif
    const std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, memory(ad, engine, const_cast<std::uint16_t*>(a.data()))},
        {DNNL_ARG_WEIGHTS, memory(bd, engine, const_cast<std::uint16_t*>(b.data()))},
        {DNNL_ARG_DST, memory(cd, engine, c.data())}};
    return rate_of(2.0 * rows * width * width, [&] {
      product.execute(stream, arguments);
      stream.wait();
    });
  } catch (const dnnl::error&) {
    return 0;
  }
}

double product_rate(bool narrow) {
  const SafetensorsFile file = SafetensorsFile::random(3);
  const kernels::Weight weight =
      WeightLoader(file, kernels::WeightFormat::bf16).linear("w", 4096, 4096, false).weight;
  const kernels::HugeVector<float> x(512 * 4096, 0.5F);
  kernels::HugeVector<float> y(512 * 4096);
  const kernels::Isa most = kernels::isa_limit();
  if (!narrow) kernels::limit_isa(std::min(most, kernels::Isa::bf16));
  const double rate =
      rate_of(2.0 * 512 * 4096 * 4096, [&] { kernels::matmul_cpu(x, weight, {}, y, 512); });
  kernels::limit_isa(most);
  return rate;
}

void print_rates() {
  std::printf(
      "bf16: tiles from registers %.0f GFLOP/s, largest product %.0f (in f32 %.0f), "
      "oneDNN's %.0f\n",
      tile_rate() / 1e9, product_rate() / 1e9, product_rate(false) / 1e9, library_rate() / 1e9);
}

}  // namespace sluice
