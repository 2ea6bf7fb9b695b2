#include "kernels/cuda/grid.h"
#include "kernels/cuda/kernels.h"

namespace sluice::device {

namespace {

constexpr unsigned row_threads = block_of(256);
constexpr unsigned flat_threads = block_of(256);

template <typename T>
__global__ void norm_kernel(const float* x, std::size_t width, bool rms, const float* weight,
                            const float* bias, float eps, Modulated modulated, T* y) {
  SLUICE_SHARED(float, scratch);
  const std::size_t row = blockIdx.x;
  const float* in = x + row * width;
  float sum = 0;
  if (!rms)
    for (std::size_t i = threadIdx.x; i < width; i += blockDim.x) sum += in[i];
  const float mean = rms ? 0.0F : block_sum(sum, scratch) / static_cast<float>(width);
  float squares = 0;
  for (std::size_t i = threadIdx.x; i < width; i += blockDim.x)
    squares += (in[i] - mean) * (in[i] - mean);
  const float factor = rsqrtf(block_sum(squares, scratch) / static_cast<float>(width) + eps);
  const float* scale = nullptr;
  if (modulated.values != nullptr)
    scale = modulated.values + modulated.of_row[row] * modulated.stride;
  for (std::size_t i = threadIdx.x; i < width; i += blockDim.x) {
    float v = (in[i] - mean) * factor;
    if (weight != nullptr) v *= weight[i];
    if (bias != nullptr) v += bias[i];
    if (scale != nullptr) v = v * (1 + scale[i]) + scale[width + i];
    store(y + row * width + i, v);
  }
}

template <typename T>
__global__ void add_kernel(float* hidden, const T* branch, std::size_t count, std::size_t width,
                           const float* scale, Modulated modulated) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::size_t row = i / width;
  const std::size_t column = i % width;
  float v = load(branch[i]);
  if (scale != nullptr) v *= scale[column];
  if (modulated.values != nullptr)
    v *= modulated.values[modulated.of_row[row] * modulated.stride + 2 * width + column];
  hidden[i] += v;
}

template <typename T>
__global__ void bias_kernel(T* y, const float* bias, std::size_t count, std::size_t width) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) store(y + i, load(y[i]) + bias[i % width]);
}

__device__ __forceinline__ float activated(kernels::Activation kind, float x) {
  if (kind == kernels::Activation::silu) return x / (1 + __expf(-x));
  if (kind == kernels::Activation::gelu_erf) return 0.5F * x * (1 + erff(x * 0.70710678118654752F));
  return 0.5F * x * (1 + tanhf(0.79788456080286536F * (x + 0.044715F * x * x * x)));
}

template <typename T>
__global__ void activate_kernel(kernels::Activation kind, T* x, std::size_t count) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) store(x + i, activated(kind, load(x[i])));
}

template <typename T>
__global__ void gated_kernel(kernels::Activation kind, const T* gate_up, std::size_t count,
                             std::size_t width, T* y) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const T* gate = gate_up + i / width * 2 * width + i % width;
  store(y + i, activated(kind, load(gate[0])) * load(gate[width]));
}

template <typename T, typename U>
__global__ void gather_kernel(const T* x, const std::int32_t* index, std::size_t count,
                              std::size_t width, float scale, U* y) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::size_t row = i / width;
  const std::size_t from = index != nullptr ? static_cast<std::size_t>(index[row]) : row;
  store(y + i, load(x[from * width + i % width]) * scale);
}

}  // namespace

template <typename T>
void norm_rows(const float* x, std::size_t rows, std::size_t width, bool rms, const float* weight,
               const float* bias, float eps, const Modulated& modulated, T* y, Stream stream) {
  if (rows == 0) return;
  SLUICE_LAUNCH(norm_kernel<T>, Dim{static_cast<unsigned>(rows)}, row_threads,
                warp_size * sizeof(float), stream, x, width, rms, weight, bias, eps, modulated, y);
}

template <typename T>
void add_rows(float* hidden, const T* branch, std::size_t rows, std::size_t width,
              const float* scale, const Modulated& modulated, Stream stream) {
  const std::size_t count = rows * width;
  if (count == 0) return;
  SLUICE_LAUNCH(add_kernel<T>, Dim{blocks_for(count, flat_threads)}, flat_threads, 0, stream,
                hidden, branch, count, width, scale, modulated);
}

template <typename T>
void add_bias(T* y, const float* bias, std::size_t rows, std::size_t width, Stream stream) {
  const std::size_t count = rows * width;
  if (count == 0 || bias == nullptr) return;
  SLUICE_LAUNCH(bias_kernel<T>, Dim{blocks_for(count, flat_threads)}, flat_threads, 0, stream, y,
                bias, count, width);
}

template <typename T>
void activate(kernels::Activation kind, T* x, std::size_t count, Stream stream) {
  if (count == 0) return;
  SLUICE_LAUNCH(activate_kernel<T>, Dim{blocks_for(count, flat_threads)}, flat_threads, 0, stream,
                kind, x, count);
}

template <typename T>
void gated(kernels::Activation kind, const T* gate_up, std::size_t rows, std::size_t width, T* y,
           Stream stream) {
  const std::size_t count = rows * width;
  if (count == 0) return;
  SLUICE_LAUNCH(gated_kernel<T>, Dim{blocks_for(count, flat_threads)}, flat_threads, 0, stream,
                kind, gate_up, count, width, y);
}

template <typename T, typename U>
void gather_rows(const T* x, const std::int32_t* index, std::size_t rows, std::size_t width,
                 float scale, U* y, Stream stream) {
  const std::size_t count = rows * width;
  if (count == 0) return;
  SLUICE_LAUNCH((gather_kernel<T, U>), Dim{blocks_for(count, flat_threads)}, flat_threads, 0,
                stream, x, index, count, width, scale, y);
}

#define SLUICE_INSTANCES(T)                                                              \
  template void norm_rows<T>(const float*, std::size_t, std::size_t, bool, const float*, \
                             const float*, float, const Modulated&, T*, Stream);         \
  template void add_rows<T>(float*, const T*, std::size_t, std::size_t, const float*,    \
                            const Modulated&, Stream);                                   \
  template void add_bias<T>(T*, const float*, std::size_t, std::size_t, Stream);         \
  template void activate<T>(kernels::Activation, T*, std::size_t, Stream);               \
  template void gated<T>(kernels::Activation, const T*, std::size_t, std::size_t, T*, Stream);
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
