#include "kernels/cuda/grid.h"
#include "kernels/cuda/kernels.h"

namespace sluice::device {

namespace {

constexpr unsigned warps = 4;
constexpr unsigned threads = warps * warp_size;

/// A warp per row of the weight, 16 bytes per lane at a time; what is left singly.
template <typename T, typename U>
__global__ void matvec_kernel(const T* x, const T* weight, const float* bias, U* y,
                              std::size_t rows, std::size_t out, std::size_t in) {
  constexpr std::size_t piece = Piece<T>::count;
  const std::size_t o = std::size_t{blockIdx.x} * warps + threadIdx.x / warp_size;
  const unsigned lane = threadIdx.x % warp_size;
  if (o >= out) return;  // a whole warp
  const T* row = weight + o * in;
  float sums[matvec_rows] = {};
  const std::size_t whole = in % piece == 0 ? in : 0;  // rows must begin on 16 bytes
  for (std::size_t i = lane * piece; i < whole; i += warp_size * piece) {
    const Piece<T> w = load_piece(row + i);
    for (std::size_t r = 0; r < matvec_rows; ++r) {
      if (r >= rows) break;
      const Piece<T> v = load_piece(x + r * in + i);
      for (std::size_t k = 0; k < piece; ++k) sums[r] += load(w.values[k]) * load(v.values[k]);
    }
  }
  for (std::size_t i = whole + lane; i < in; i += warp_size) {
    const float w = load(row[i]);
    for (std::size_t r = 0; r < matvec_rows; ++r)
      if (r < rows) sums[r] += w * load(x[r * in + i]);
  }
  for (std::size_t r = 0; r < matvec_rows; ++r) {
    if (r >= rows) break;
    const float sum = warp_sum(sums[r]);
    if (lane == 0) store(y + r * out + o, sum + (bias != nullptr ? bias[o] : 0.0F));
  }
}

}  // namespace

template <typename T, typename U>
void matvec(const T* x, const T* weight, const float* bias, U* y, std::size_t rows, std::size_t out,
            std::size_t in, Stream stream) {
  if (rows == 0 || out == 0) return;
  SLUICE_LAUNCH((matvec_kernel<T, U>), Dim{blocks_for(out, warps)}, threads, 0, stream, x, weight,
                bias, y, rows, out, in);
}

template void matvec<float, float>(const float*, const float*, const float*, float*, std::size_t,
                                   std::size_t, std::size_t, Stream);
template void matvec<Bf16, Bf16>(const Bf16*, const Bf16*, const float*, Bf16*, std::size_t,
                                 std::size_t, std::size_t, Stream);
template void matvec<Bf16, float>(const Bf16*, const Bf16*, const float*, float*, std::size_t,
                                  std::size_t, std::size_t, Stream);

}  // namespace sluice::device
