#include <dnnl.h>
#include <omp.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/huge_vector.h"
#include "kernels/isa.h"
#include "kernels/onednn.h"

namespace sluice::kernels {

void keep_library_on_this_thread() {
  thread_local bool kept = false;
  if (kept) return;
  ::omp_set_num_threads(1);  // of loops that this thread begins
  kept = true;
}

namespace {

/// Without AVX-512 the library takes as many rows at a time. Of a rest of up to `rest_most` it adds
/// the products in another order than of any other number of rows; and it cuts more rows than
/// `at_once_most` into parts with such a rest.
constexpr std::size_t strip = 6, rest_most = 3, at_once_most = 16 * strip;

void product(const Sgemm& shape, const float* a, const float* b, float* c) {
  const auto size = [](std::size_t v) { return static_cast<dnnl_dim_t>(v); };
  const auto status =
      dnnl_sgemm('N', shape.transposed ? 'T' : 'N', size(shape.m), size(shape.n), size(shape.k),
                 1.0F, a, size(shape.k), b, size(shape.transposed ? shape.k : shape.n),
                 shape.on_top ? 1.0F : 0.0F, c, size(shape.c_stride));
  SLUICE_CHECK(status == dnnl_success, "oneDNN refused a product");
}

/// Of fewer rows than a strip: with rows of zeros behind them.
void product_of_rest(const Sgemm& shape, const float* a, const float* b, float* c) {
  thread_local HugeVector<float> rows, sums;
  grow(rows, strip * shape.k);
  grow(sums, strip * shape.n);
  std::copy_n(a, shape.m * shape.k, rows.data());
  std::fill_n(rows.data() + shape.m * shape.k, (strip - shape.m) * shape.k, 0.0F);
  if (shape.on_top) {
    std::fill_n(sums.data() + shape.m * shape.n, (strip - shape.m) * shape.n, 0.0F);
    for (std::size_t r = 0; r < shape.m; ++r)
      std::copy_n(c + r * shape.c_stride, shape.n, sums.data() + r * shape.n);
  }
  product({shape.transposed, shape.on_top, strip, shape.n, shape.k, shape.n}, rows.data(), b,
          sums.data());
  for (std::size_t r = 0; r < shape.m; ++r)
    std::copy_n(sums.data() + r * shape.n, shape.n, c + r * shape.c_stride);
}

}  // namespace

void sgemm(const Sgemm& shape, const float* a, const float* b, float* c) {
  keep_library_on_this_thread();
  if (has(Isa::avx512)) return product(shape, a, b, c);
  Sgemm part = shape;
  const auto next = [&](std::size_t rows, auto&& product_of) {
    part.m = rows;
    product_of(part, a, b, c);
    a += rows * shape.k;
    c += rows * shape.c_stride;
  };
  const std::size_t rest = shape.m % strip <= rest_most ? shape.m % strip : 0;
  for (std::size_t left = shape.m - rest; left > 0; left -= part.m)
    next(std::min(left, at_once_most), product);
  if (rest != 0) next(rest, product_of_rest);
}

}  // namespace sluice::kernels
