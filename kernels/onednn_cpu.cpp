#include <dnnl.h>
#include <omp.h>

#include "base/check.h"
#include "kernels/onednn.h"

namespace sluice::kernels {

void keep_library_on_this_thread() {
  thread_local bool kept = false;
  if (kept) return;
  ::omp_set_num_threads(1);  // of loops that this thread begins
  kept = true;
}

void sgemm(const Sgemm& shape, const float* a, const float* b, float* c) {
  keep_library_on_this_thread();
  const auto size = [](std::size_t v) { return static_cast<dnnl_dim_t>(v); };
  const auto status =
      dnnl_sgemm('N', shape.transposed ? 'T' : 'N', size(shape.m), size(shape.n), size(shape.k),
                 1.0F, a, size(shape.k), b, size(shape.transposed ? shape.k : shape.n),
                 shape.on_top ? 1.0F : 0.0F, c, size(shape.c_stride));
  SLUICE_CHECK(status == dnnl_success, "oneDNN refused a product");
}

}  // namespace sluice::kernels
