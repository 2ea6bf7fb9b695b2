#include "kernels/cuda/activation.h"
#include "kernels/cuda/columns.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/norm.h"

namespace sluice::device {

namespace {

constexpr unsigned row_threads = block_of(256);

/// A block per row.
template <typename T, typename U>
__global__ void norm_kernel(Norm norm, Branch<T> branch, std::size_t width, U* y) {
  wait_for_inputs();
  SLUICE_SHARED(float, scratch);
  norm_row(norm, branch, blockIdx.x, static_cast<unsigned>(width), scratch, y + blockIdx.x * width);
}

/// The others: a block per row (grid x) and some of its columns (grid y), of which a thread has a
/// few that follow each other.
struct Columns {
  std::size_t row;
  unsigned first, end;  // end: of those that are there

  __device__ explicit Columns(std::size_t width) : row(blockIdx.x) {
    const std::size_t at = (std::size_t{blockIdx.y} * blockDim.x + threadIdx.x) * columns_most;
    first = static_cast<unsigned>(at < width ? at : width);
    end = static_cast<unsigned>(at + columns_most < width ? at + columns_most : width);
  }
};
Dim grid_of(std::size_t rows, std::size_t width) {
  return Dim{static_cast<unsigned>(rows),
             blocks_for(width, std::size_t{row_threads} * columns_most)};
}

/// y = make(column, x's value), column by column of rows that are `width` apart.
template <typename T, typename U, typename Make>
__device__ __forceinline__ void each_column(const T* x, U* y, const Columns& columns, bool whole,
                                            const Make& make) {
  const unsigned count = columns.end - columns.first;
  if (count == 0) return;
  whole = whole && count == columns_most;
  Taken<T> taken(x + columns.first, count, whole);
  SLUICE_UNROLL
  for (unsigned k = 0; k < columns_most; ++k)
    if (k < count) taken.values[k] = make(columns.first + k, taken.values[k]);
  put(y + columns.first, taken.values, count, whole);
}

template <typename T>
__global__ void add_kernel(float* hidden, Branch<T> branch, std::size_t width) {
  wait_for_inputs();
  const Columns columns(width);
  float* row = hidden + columns.row * width;
  each_column(row, row, columns, width % columns_most == 0,
              [&](unsigned i, float v) { return v + value_of(branch, columns.row, i, width); });
}

template <typename T>
__global__ void bias_kernel(T* y, const float* bias, std::size_t width) {
  wait_for_inputs();
  const Columns columns(width);
  T* row = y + columns.row * width;
  each_column(row, row, columns, width % columns_most == 0,
              [&](unsigned i, float v) { return v + bias[i]; });
}

template <typename T>
__global__ void activate_kernel(kernels::Activation kind, T* x, const float* bias,
                                std::size_t width) {
  wait_for_inputs();
  const Columns columns(width);
  T* row = x + columns.row * width;
  each_column(row, row, columns, width % columns_most == 0, [&](unsigned i, float v) {
    return activated(kind, v + (bias != nullptr ? bias[i] : 0.0F));
  });
}

template <typename T>
__global__ void gated_kernel(kernels::Activation kind, const T* gate_up, const float* bias,
                             std::size_t width, T* y) {
  wait_for_inputs();
  const Columns columns(width);
  const unsigned count = columns.end - columns.first;
  if (count == 0) return;
  const bool whole = width % columns_most == 0;
  const T* gates = gate_up + columns.row * 2 * width;
  const Taken<T> up(gates + width + columns.first, count, whole);
  each_column(gates, y + columns.row * width, columns, whole, [&](unsigned i, float gate) {
    const float other = up.values[i - columns.first];
    if (bias == nullptr) return activated(kind, gate) * other;
    return activated(kind, gate + bias[i]) * (other + bias[width + i]);
  });
}

template <typename T, typename U>
__global__ void gather_kernel(const T* x, const std::int32_t* index, std::size_t width, float scale,
                              U* y) {
  wait_for_inputs();
  const Columns columns(width);
  const std::size_t from =
      index != nullptr ? static_cast<std::size_t>(index[columns.row]) : columns.row;
  each_column(x + from * width, y + columns.row * width, columns, width % columns_most == 0,
              [&](unsigned, float v) { return v * scale; });
}

}  // namespace

template <typename T>
void norm_rows(const Norm& norm, std::size_t rows, std::size_t width, T* y, Stream stream) {
  if (rows == 0) return;
  SLUICE_LAUNCH((norm_kernel<float, T>), Dim{static_cast<unsigned>(rows)}, row_threads,
                warp_size * sizeof(float), stream, norm, Branch<float>{}, width, y);
}

template <typename T>
void add_rows(float* hidden, const Branch<T>& branch, std::size_t rows, std::size_t width,
              Stream stream) {
  if (rows * width == 0) return;
  SLUICE_LAUNCH(add_kernel<T>, grid_of(rows, width), row_threads, 0, stream, hidden, branch, width);
}

template <typename T>
void add_and_norm(const Norm& norm, const Branch<T>& branch, std::size_t rows, std::size_t width,
                  T* y, Stream stream) {
  if (rows == 0) return;
  SLUICE_LAUNCH((norm_kernel<T, T>), Dim{static_cast<unsigned>(rows)}, row_threads,
                warp_size * sizeof(float), stream, norm, branch, width, y);
}

template <typename T>
void add_bias(T* y, const float* bias, std::size_t rows, std::size_t width, Stream stream) {
  if (rows * width == 0 || bias == nullptr) return;
  SLUICE_LAUNCH(bias_kernel<T>, grid_of(rows, width), row_threads, 0, stream, y, bias, width);
}

template <typename T>
void activate(kernels::Activation kind, T* x, const float* bias, std::size_t rows,
              std::size_t width, Stream stream) {
  if (rows * width == 0) return;
  SLUICE_LAUNCH(activate_kernel<T>, grid_of(rows, width), row_threads, 0, stream, kind, x, bias,
                width);
}

template <typename T>
void gated(kernels::Activation kind, const T* gate_up, const float* bias, std::size_t rows,
           std::size_t width, T* y, Stream stream) {
  if (rows * width == 0) return;
  SLUICE_LAUNCH(gated_kernel<T>, grid_of(rows, width), row_threads, 0, stream, kind, gate_up, bias,
                width, y);
}

template <typename T, typename U>
void gather_rows(const T* x, const std::int32_t* index, std::size_t rows, std::size_t width,
                 float scale, U* y, Stream stream) {
  if (rows * width == 0) return;
  SLUICE_LAUNCH((gather_kernel<T, U>), grid_of(rows, width), row_threads, 0, stream, x, index,
                width, scale, y);
}

#define SLUICE_INSTANCES(T)                                                                     \
  template void norm_rows<T>(const Norm&, std::size_t, std::size_t, T*, Stream);                \
  template void add_rows<T>(float*, const Branch<T>&, std::size_t, std::size_t, Stream);        \
  template void add_and_norm<T>(const Norm&, const Branch<T>&, std::size_t, std::size_t, T*,    \
                                Stream);                                                        \
  template void add_bias<T>(T*, const float*, std::size_t, std::size_t, Stream);                \
  template void activate<T>(kernels::Activation, T*, const float*, std::size_t, std::size_t,    \
                            Stream);                                                            \
  template void gated<T>(kernels::Activation, const T*, const float*, std::size_t, std::size_t, \
                         T*, Stream);
SLUICE_INSTANCES(float)
SLUICE_INSTANCES(Bf16)

#define SLUICE_GATHER(T, U)                                                                       \
  template void gather_rows<T, U>(const T*, const std::int32_t*, std::size_t, std::size_t, float, \
                                  U*, Stream);
SLUICE_GATHER(float, float)
SLUICE_GATHER(float, Bf16)
SLUICE_GATHER(Bf16, float)
SLUICE_GATHER(Bf16, Bf16)

}  // namespace sluice::device
