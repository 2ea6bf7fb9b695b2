#include <dnnl.h>

#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/matmul.h"

namespace sluice::kernels {

namespace {

/// Up to this many rows the matrix-vector path is taken: it reads half the bytes.
constexpr std::size_t rows_few = 4;
constexpr std::size_t lanes = 16;

inline float widen(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
inline float widen(float value) { return value; }

/// One row times one row of W. Sixteen independent sums, so that the compiler may use wide
/// registers without reordering a sum.
template <typename T>
[[gnu::always_inline]] inline float dot(const float* x, const T* w, std::size_t count) {
  float sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) sums[j] += x[i + j] * widen(w[i + j]);
  float sum = 0;
  for (; i < count; ++i) sum += x[i] * widen(w[i]);
  for (std::size_t width = lanes / 2; width > 0; width /= 2)
    for (std::size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  return sum + sums[0];
}

template <typename T>
[[gnu::always_inline]] inline void few_rows(const float* x, const T* w, const float* bias,
                                            float* y, std::size_t rows, std::size_t in,
                                            std::size_t out) {
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t r = 0; r < rows; ++r)
      y[r * out + o] = dot(x + r * in, w + o * in, in) + (bias != nullptr ? bias[o] : 0.0F);
}

#define SLUICE_FEW_ROWS(name, target)                                                        \
  target void name(const float* x, const std::uint16_t* w, const float* bias, float* y,      \
                   std::size_t rows, std::size_t in, std::size_t out) {                      \
    few_rows(x, w, bias, y, rows, in, out);                                                  \
  }                                                                                          \
  target void name(const float* x, const float* w, const float* bias, float* y,              \
                   std::size_t rows, std::size_t in, std::size_t out) {                      \
    few_rows(x, w, bias, y, rows, in, out);                                                  \
  }
SLUICE_FEW_ROWS(few_rows_any, )
SLUICE_FEW_ROWS(few_rows_avx2, [[gnu::target("avx2,fma")]])
SLUICE_FEW_ROWS(few_rows_avx512, [[gnu::target("avx512f,avx512bw,avx512vl,fma")]])
#undef SLUICE_FEW_ROWS

template <typename T>
void few_rows_best(const float* x, const T* w, const float* bias, float* y, std::size_t rows,
                   std::size_t in, std::size_t out) {
  static const int level = __builtin_cpu_supports("avx512bw") ? 2
                           : __builtin_cpu_supports("avx2")   ? 1
                                                              : 0;
  if (level == 2) return few_rows_avx512(x, w, bias, y, rows, in, out);
  if (level == 1) return few_rows_avx2(x, w, bias, y, rows, in, out);
  few_rows_any(x, w, bias, y, rows, in, out);
}

}  // namespace

void matmul_cpu(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                std::span<float> y, std::size_t rows) {
  const std::size_t in = weight.in();
  const std::size_t out = weight.out();
  SLUICE_CHECK(x.size() >= rows * in && y.size() >= rows * out, "matmul sizes do not fit");
  const float* bias_data = bias.empty() ? nullptr : bias.data();
  if (rows <= rows_few) {
    if (weight.stored_bf16())
      few_rows_best(x.data(), weight.bf16(), bias_data, y.data(), rows, in, out);
    else
      few_rows_best(x.data(), weight.f32(), bias_data, y.data(), rows, in, out);
    return;
  }
  if (bias_data != nullptr)
    for (std::size_t r = 0; r < rows; ++r)
      std::memcpy(y.data() + r * out, bias_data, out * sizeof(float));
  const auto status = dnnl_sgemm('N', 'T', static_cast<dnnl_dim_t>(rows),
                                 static_cast<dnnl_dim_t>(out), static_cast<dnnl_dim_t>(in), 1.0F,
                                 x.data(), static_cast<dnnl_dim_t>(in), weight.f32(),
                                 static_cast<dnnl_dim_t>(in), bias_data != nullptr ? 1.0F : 0.0F,
                                 y.data(), static_cast<dnnl_dim_t>(out));
  SLUICE_CHECK(status == dnnl_success, "oneDNN refused a product");
}

void gemm_cpu(const float* a, const float* b, float* c, std::size_t m, std::size_t n,
              std::size_t k) {
  const auto status = dnnl_sgemm('N', 'N', static_cast<dnnl_dim_t>(m), static_cast<dnnl_dim_t>(n),
                                 static_cast<dnnl_dim_t>(k), 1.0F, a, static_cast<dnnl_dim_t>(k),
                                 b, static_cast<dnnl_dim_t>(n), 0.0F, c,
                                 static_cast<dnnl_dim_t>(n));
  SLUICE_CHECK(status == dnnl_success, "oneDNN refused a product");
}

}  // namespace sluice::kernels
