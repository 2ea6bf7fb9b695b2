#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <exception>
#include <unordered_map>

#include "base/check.h"
#include "kernels/amx.h"
#include "kernels/matmul.h"
#include "kernels/matmul_amx.h"
#include "kernels/matvec.h"
#include "kernels/parallel.h"
#include "kernels/vector_math.h"

namespace sluice::kernels {

namespace {

/// Up to this many rows the matrix-vector path is taken: it reads the fewest bytes.
constexpr std::size_t rows_few = 4;
/// Values of a matrix that are worth a thread.
constexpr std::size_t values_per_thread = 1 << 16;
/// Numbers of rows that the library divides well among its blocks; others it may do at half the
/// rate: 544 rows of 16384 by 2048 take 55 ms, as 512 and 32 they take 32.
constexpr std::size_t rows_good[] = {512, 480, 448, 384, 256, 192, 128, 64};

/// The largest good number, or what is left below the least of them.
std::size_t next_rows(std::size_t left) {
  for (const std::size_t rows : rows_good)
    if (rows <= left) return rows;
  return left;
}

/// A last piece of a few rows costs as much as one of thirty: then the whole stays together.
bool worth_cutting(std::size_t m) {
  constexpr std::size_t last_least = 24;
  if (m <= rows_good[0] || m % rows_good[0] == 0) return false;
  std::size_t left = m;
  while (left > 0 && next_rows(left) < left) left -= next_rows(left);
  return left >= last_least;
}

std::size_t largest_divisor(std::size_t of, std::size_t most) {
  while (of % most != 0) --most;
  return most;
}

/// The library works on as many rows at a time as the largest divisor up to 64 says, in tiles of
/// that number's largest divisor up to 16. Where these are low, a product takes up to three times
/// as long: 53, 58, 153, 183 rows; 50, 52, 150 do well. Seen over all numbers from 33 to 270.
bool runs_badly(std::size_t rows) {
  const std::size_t block = largest_divisor(rows, 64);
  return block > 16 && largest_divisor(block, 16) < 8;
}

/// The same number, or the next multiple of sixteen that does well. Of few rows, the next costs
/// more than it gains.
std::size_t rounded_up(std::size_t rows) {
  constexpr std::size_t least = 36;
  constexpr std::size_t step = 16;
  if (rows <= least || !runs_badly(rows)) return rows;
  std::size_t more = (rows / step + 1) * step;
  while (runs_badly(more)) more += step;
  return more;
}

/// Rows of an int8 matrix that are widened at a time: a panel stays in the cache.
constexpr std::size_t panel_rows = 512;

SLUICE_WIDE void narrow_all(const float* from, std::uint16_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = narrow(from[i]);
}
/// Whole numbers up to 127 are exact in bf16.
SLUICE_WIDE void widen_int8(const std::int8_t* from, std::uint16_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = narrow(static_cast<float>(from[i]));
}
SLUICE_WIDE void scale_add(float* y, const float* scales, const float* bias, std::size_t count) {
  if (scales != nullptr)
    for (std::size_t i = 0; i < count; ++i) y[i] *= scales[i];
  if (bias != nullptr)
    for (std::size_t i = 0; i < count; ++i) y[i] += bias[i];
}

void many_rows_exact(std::span<const float> x, const Weight& weight, const float* bias,
                     std::span<float> y, std::size_t rows) {
  const std::size_t in = weight.in();
  const std::size_t out = weight.out();
  if (bias != nullptr)
    for (std::size_t r = 0; r < rows; ++r)
      std::memcpy(y.data() + r * out, bias, out * sizeof(float));
  const auto status =
      dnnl_sgemm('N', 'T', static_cast<dnnl_dim_t>(rows), static_cast<dnnl_dim_t>(out),
                 static_cast<dnnl_dim_t>(in), 1.0F, x.data(), static_cast<dnnl_dim_t>(in),
                 weight.f32().data(), static_cast<dnnl_dim_t>(in), bias != nullptr ? 1.0F : 0.0F,
                 y.data(), static_cast<dnnl_dim_t>(out));
  SLUICE_CHECK(status == dnnl_success, "oneDNN refused a product");
}

void many_rows_narrow(std::span<const float> x, const Weight& weight, const float* bias,
                      std::span<float> y, std::size_t rows) {
  const std::size_t in = weight.in();
  const std::size_t out = weight.out();
  const std::size_t room = y.size() >= rows_with_room(rows) * out ? rows_with_room(rows) : rows;
  thread_local std::vector<std::uint16_t> narrowed;
  thread_local std::vector<std::uint16_t> panel;
  narrowed.resize(room * in);
  std::uint16_t* a = narrowed.data();
  parallel_for(rows * in, values_per_thread, [&](std::size_t begin, std::size_t end) {
    narrow_all(x.data() + begin, a + begin, end - begin);
  });
  const float* scales = weight.scales().empty() ? nullptr : weight.scales().data();
  if (scales == nullptr) {
    gemm_bf16_cpu(a, weight.bf16().data(), true, y.data(), rows, out, in, out, bias, room);
  } else {
    for (std::size_t first = 0; first < out; first += panel_rows) {
      const std::size_t count = std::min(panel_rows, out - first);
      panel.resize(count * in);
      std::uint16_t* b = panel.data();
      const std::int8_t* from = weight.int8().data() + first * in;
      parallel_for(count * in, values_per_thread, [&](std::size_t begin, std::size_t end) {
        widen_int8(from + begin, b + begin, end - begin);
      });
      gemm_bf16_cpu(a, b, true, y.data() + first, rows, count, in, out, nullptr, room);
    }
  }
  if (scales == nullptr) return;
  parallel_for(rows, values_per_thread / out + 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) scale_add(y.data() + r * out, scales, bias, out);
  });
}

}  // namespace

std::size_t rows_with_room(std::size_t rows) {
  if (has_amx()) return rows;
  if (!worth_cutting(rows)) return rounded_up(rows);
  std::size_t left = rows;
  while (next_rows(left) < left) left -= next_rows(left);
  return rows - left + rounded_up(left);
}

void matmul_cpu(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                std::span<float> y, std::size_t rows) {
  const std::size_t in = weight.in();
  const std::size_t out = weight.out();
  SLUICE_CHECK(x.size() >= rows * in && y.size() >= rows * out, "matmul sizes do not fit");
  if (rows == 0 || out == 0) return;
  const float* bias_data = bias.empty() ? nullptr : bias.data();
  const bool exact = weight.format() == WeightFormat::exact;
  if (rows > rows_few) {
    if (exact) return many_rows_exact(x, weight, bias_data, y, rows);
    if (has_amx()) return matmul_amx(x, weight, bias_data, y, rows);
    return many_rows_narrow(x, weight, bias_data, y, rows);
  }
  thread_local std::vector<float> rounded;
  thread_local std::vector<std::uint16_t> narrowed;
  FewRows f;
  f.x = x.data();
  f.scales = weight.scales().empty() ? nullptr : weight.scales().data();
  f.bias = bias_data;
  f.y = y.data();
  f.rows = rows;
  f.in = in;
  f.out = out;
  if (!exact) {
    rounded.resize(rows * in);
    narrowed.resize(rows * in);
    narrow_all(x.data(), narrowed.data(), rows * in);
    for (std::size_t i = 0; i < rows * in; ++i) rounded[i] = widen(narrowed[i]);
    f.x = rounded.data();
    f.x_bf16 = narrowed.data();
  }
  thread_local std::vector<std::uint8_t> high, low;
  thread_local std::vector<float> row_scales;
  if (!weight.int8().empty() && wants_split(in)) {
    high.resize(rows * in);
    low.resize(rows * in);
    row_scales.resize(rows);
    for (std::size_t r = 0; r < rows; ++r)
      row_scales[r] = split_row(f.x + r * in, in, &high[r * in], &low[r * in]);
    f.split = {high.data(), low.data(), row_scales.data(), weight.sums().data()};
  }
  parallel_for(out, values_per_thread / in + 1, [&](std::size_t begin, std::size_t end) {
    if (!weight.int8().empty())
      matvec(f, weight.int8().data(), begin, end);
    else if (!weight.bf16().empty())
      matvec(f, weight.bf16().data(), begin, end);
    else
      matvec(f, weight.f32().data(), begin, end);
  });
}

namespace {

bool many_on_tiles(const Weight& weight, std::size_t rows) {
  return rows > rows_few && weight.format() != WeightFormat::exact && weight.out() != 0 &&
         has_amx();
}

}  // namespace

void matmul_activate_cpu(Activation kind, std::span<const float> x, const Weight& weight,
                         std::span<const float> bias, std::span<float> y, std::size_t rows) {
  const std::span<float> made = y.first(rows * weight.out());
  if (kind != Activation::gelu_erf && many_on_tiles(weight, rows))
    return matmul_amx(x, weight, bias.empty() ? nullptr : bias.data(), made, rows,
                      {Finish::activate, kind});
  matmul_cpu(x, weight, bias, y, rows);
  activate_cpu(kind, made);
}

void matmul_gated_cpu(Activation kind, std::span<const float> x, const Weight& weight,
                      std::span<const float> bias, std::span<float> y, std::size_t rows) {
  const std::size_t width = weight.out() / 2;
  const std::span<float> made = y.first(rows * width);
  if (kind != Activation::gelu_erf && weight.in() <= amx_gated_in_most &&
      many_on_tiles(weight, rows))
    return matmul_amx(x, weight, bias.empty() ? nullptr : bias.data(), made, rows,
                      {Finish::gate, kind});
  thread_local HugeVector<float> product;
  grow(product, rows_with_room(rows) * weight.out());
  matmul_cpu(x, weight, bias, product, rows);
  gated_cpu(kind, std::span(product).first(rows * weight.out()), width, made);
}

void matmul_add_cpu(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                    std::span<float> y, std::size_t rows) {
  const std::span<float> sum = y.first(rows * weight.out());
  if (many_on_tiles(weight, rows))
    return matmul_amx(x, weight, bias.empty() ? nullptr : bias.data(), sum, rows, {Finish::add});
  thread_local HugeVector<float> product;
  grow(product, rows_with_room(rows) * weight.out());
  matmul_cpu(x, weight, bias, product, rows);
  add_cpu(sum, std::span(product).first(sum.size()));
}

void narrow_cpu(const float* from, std::uint16_t* to, std::size_t count) {
  narrow_all(from, to, count);
}

namespace {

/// One product of the library's.
void product_bf16(const std::uint16_t* a, const std::uint16_t* b, bool transposed, float* c,
                  std::size_t m, std::size_t n, std::size_t k, std::size_t stride,
                  const float* bias) {
  using dnnl::memory;
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  thread_local dnnl::stream stream(engine);
  const auto size = [](std::size_t v) { return static_cast<memory::dim>(v); };
  // The library throws; nothing below is the user's, so a failure is a bug or no memory.
  try {
    const memory::desc ad(memory::dims{size(m), size(k)}, memory::data_type::bf16,
                          memory::format_tag::ab);
    const memory::desc bd(memory::dims{size(k), size(n)}, memory::data_type::bf16,
                          transposed ? memory::format_tag::ba : memory::format_tag::ab);
    const memory::desc cd(memory::dims{size(m), size(n)}, memory::data_type::f32,
                          memory::dims{size(stride), 1});
    memory::desc biasd;
    if (bias != nullptr)
      biasd =
          memory::desc(memory::dims{1, size(n)}, memory::data_type::f32, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine, ad, bd, biasd, cd);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(ad, bd, biasd, cd), engine);
#endif
    const dnnl::matmul product(description);
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, memory(ad, engine, const_cast<std::uint16_t*>(a))},
        {DNNL_ARG_WEIGHTS, memory(bd, engine, const_cast<std::uint16_t*>(b))},
        {DNNL_ARG_DST, memory(cd, engine, c)}};
    if (bias != nullptr)
      arguments.emplace(DNNL_ARG_BIAS, memory(biasd, engine, const_cast<float*>(bias)));
    product.execute(stream, arguments);
    stream.wait();
  } catch (const std::exception& error) {
    SLUICE_CHECK(false, error.what());
  }
}

}  // namespace

void gemm_bf16_cpu(const std::uint16_t* a, const std::uint16_t* b, bool transposed, float* c,
                   std::size_t m, std::size_t n, std::size_t k, std::size_t stride,
                   const float* bias, std::size_t room) {
  const bool cut = worth_cutting(m);
  for (std::size_t at = 0; at < m;) {
    std::size_t rows = cut ? next_rows(m - at) : m;
    if (at + rows == m && at + rounded_up(rows) <= room) rows = rounded_up(rows);
    product_bf16(a + at * k, b, transposed, c + at * stride, rows, n, k, stride, bias);
    at += rows;
  }
}

}  // namespace sluice::kernels
