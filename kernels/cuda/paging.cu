#include "kernels/cuda/columns.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/kernels.h"

namespace sluice::device {

namespace {

constexpr unsigned threads = block_of(128);

/// Where one row of keys or values of a sequence stands.
template <typename T>
__device__ __forceinline__ T* row_in_pages(const Pages<T>& pages, std::size_t layer, bool values,
                                           const std::uint32_t* sequence_pages, unsigned place) {
  const auto page_tokens = static_cast<unsigned>(pages.page_tokens);
  const std::size_t page = sequence_pages[place / page_tokens];
  const std::size_t half = (page * pages.layers + layer) * 2 + (values ? 1 : 0);
  return pages.data + (half * pages.page_tokens + place % page_tokens) * pages.row;
}

/// A block per row; a thread takes a few pairs of values that stand half a head apart.
template <typename T>
__global__ void rotate_kernel(kernels::HeadShape shape, const T* qkv, const float* bias,
                              const float* cosine, const float* sine, T* q, Pages<T> pages,
                              std::size_t layer, Places places) {
  wait_for_inputs();
  const std::size_t row = blockIdx.x;
  const auto dims = static_cast<unsigned>(shape.head_dim);
  const auto heads = static_cast<unsigned>(shape.heads);
  const auto kv_heads = static_cast<unsigned>(shape.kv_heads);
  const unsigned half = dims / 2;
  const unsigned units = (half + columns_most - 1) / columns_most;  // of a head
  const bool whole = half % columns_most == 0;
  const T* in = qkv + row * (heads + 2 * kv_heads) * dims;
  const std::uint32_t* sequence_pages = places.pages + places.sequence[row] * places.pages_max;
  T* keys = row_in_pages(pages, layer, false, sequence_pages, places.place[row]);
  T* values = row_in_pages(pages, layer, true, sequence_pages, places.place[row]);
  for (unsigned i = threadIdx.x; i < (heads + 2 * kv_heads) * units; i += blockDim.x) {
    const unsigned head = i / units;
    const unsigned pair = i % units * columns_most;
    const unsigned count = half - pair < columns_most ? half - pair : columns_most;
    const unsigned first = head * dims + pair;
    Taken<T> a(in + first, count, whole);
    Taken<T> b(in + first + half, count, whole);
    if (bias != nullptr) {
      a.add(Taken<float>(bias + first, count, whole));
      b.add(Taken<float>(bias + first + half, count, whole));
    }
    const bool is_value = head >= heads + kv_heads;
    if (cosine != nullptr && (head < heads || (!is_value && !shape.keys_unrotated))) {
      const Taken<float> c(cosine + row * half + pair, count, whole);
      const Taken<float> s(sine + row * half + pair, count, whole);
      SLUICE_UNROLL
      for (unsigned k = 0; k < columns_most; ++k) {
        const float turned = a.values[k] * c.values[k] - b.values[k] * s.values[k];
        b.values[k] = b.values[k] * c.values[k] + a.values[k] * s.values[k];
        a.values[k] = turned;
      }
    }
    T* to = is_value        ? values + (head - heads - kv_heads) * dims
            : head >= heads ? keys + (head - heads) * dims
                            : q + (row * heads + head) * dims;
    put(to + pair, a.values, count, whole);
    put(to + half + pair, b.values, count, whole);
  }
}

template <typename T>
__global__ void pages_to_rows_kernel(Pages<T> pages, std::size_t layer, bool values,
                                     const std::uint32_t* sequence_pages, T* rows) {
  wait_for_inputs();
  const T* from = row_in_pages(pages, layer, values, sequence_pages, blockIdx.x);
  for (std::size_t i = threadIdx.x; i < pages.row; i += blockDim.x)
    rows[blockIdx.x * pages.row + i] = from[i];
}

template <typename T>
__global__ void rows_to_pages_kernel(const T* rows, Pages<T> pages, std::size_t layer, bool values,
                                     const std::uint32_t* sequence_pages) {
  wait_for_inputs();
  T* to = row_in_pages(pages, layer, values, sequence_pages, blockIdx.x);
  for (std::size_t i = threadIdx.x; i < pages.row; i += blockDim.x)
    to[i] = rows[blockIdx.x * pages.row + i];
}

/// A thread per column: what it overwrites it has read before.
template <typename T>
__global__ void shift_kernel(T* rows, std::size_t count, std::size_t width, std::size_t by) {
  wait_for_inputs();
  const std::size_t column = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= width) return;
  for (std::size_t row = by; row < count; ++row)
    rows[(row - by) * width + column] = rows[row * width + column];
}

/// A block per patch.
template <typename T>
__global__ void cut_kernel(const std::uint8_t* picture, std::size_t side, std::size_t patch,
                           const float* mean, const float* deviation, T* patches) {
  wait_for_inputs();
  const std::size_t grid = side / patch;
  const std::size_t top = blockIdx.x / grid * patch;
  const std::size_t left = blockIdx.x % grid * patch;
  const std::size_t area = patch * patch;
  for (std::size_t i = threadIdx.x; i < 3 * area; i += blockDim.x) {
    const std::size_t channel = i / area;
    const std::size_t y = top + i % area / patch;
    const std::size_t x = left + i % patch;
    const auto share = static_cast<float>(picture[(y * side + x) * 3 + channel]) * (1.0F / 255);
    store(patches + blockIdx.x * 3 * area + i, (share - mean[channel]) / deviation[channel]);
  }
}

}  // namespace

template <typename T>
void rotate_and_store(const kernels::HeadShape& shape, const T* qkv, const float* bias,
                      std::size_t rows, const float* cosine, const float* sine, T* q,
                      const Pages<T>& pages, std::size_t layer, const Places& places,
                      Stream stream) {
  if (rows == 0) return;
  SLUICE_LAUNCH(rotate_kernel<T>, Dim{static_cast<unsigned>(rows)}, threads, 0, stream, shape, qkv,
                bias, cosine, sine, q, pages, layer, places);
}

template <typename T>
void pages_to_rows(const Pages<T>& pages, std::size_t layer, bool values,
                   const std::uint32_t* sequence_pages, std::size_t tokens, T* rows,
                   Stream stream) {
  if (tokens == 0) return;
  SLUICE_LAUNCH(pages_to_rows_kernel<T>, Dim{static_cast<unsigned>(tokens)}, threads, 0, stream,
                pages, layer, values, sequence_pages, rows);
}

template <typename T>
void rows_to_pages(const T* rows, const Pages<T>& pages, std::size_t layer, bool values,
                   const std::uint32_t* sequence_pages, std::size_t tokens, Stream stream) {
  if (tokens == 0) return;
  SLUICE_LAUNCH(rows_to_pages_kernel<T>, Dim{static_cast<unsigned>(tokens)}, threads, 0, stream,
                rows, pages, layer, values, sequence_pages);
}

template <typename T>
void shift_rows(T* rows, std::size_t count, std::size_t width, std::size_t by, Stream stream) {
  if (by == 0 || by >= count) return;
  SLUICE_LAUNCH(shift_kernel<T>, Dim{blocks_for(width, threads)}, threads, 0, stream, rows, count,
                width, by);
}

template <typename T>
void cut_normalised(const std::uint8_t* picture, std::size_t side, std::size_t patch,
                    const float* mean, const float* deviation, T* patches, Stream stream) {
  const std::size_t grid = side / patch;
  SLUICE_LAUNCH(cut_kernel<T>, Dim{static_cast<unsigned>(grid * grid)}, threads, 0, stream, picture,
                side, patch, mean, deviation, patches);
}

#define SLUICE_INSTANCES(T)                                                                       \
  template void rotate_and_store<T>(const kernels::HeadShape&, const T*, const float*,            \
                                    std::size_t, const float*, const float*, T*, const Pages<T>&, \
                                    std::size_t, const Places&, Stream);                          \
  template void pages_to_rows<T>(const Pages<T>&, std::size_t, bool, const std::uint32_t*,        \
                                 std::size_t, T*, Stream);                                        \
  template void rows_to_pages<T>(const T*, const Pages<T>&, std::size_t, bool,                    \
                                 const std::uint32_t*, std::size_t, Stream);                      \
  template void shift_rows<T>(T*, std::size_t, std::size_t, std::size_t, Stream);                 \
  template void cut_normalised<T>(const std::uint8_t*, std::size_t, std::size_t, const float*,    \
                                  const float*, T*, Stream);
SLUICE_INSTANCES(float)
SLUICE_INSTANCES(Bf16)

}  // namespace sluice::device
