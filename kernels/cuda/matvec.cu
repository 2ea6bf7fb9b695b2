#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/norm.h"

namespace sluice::device {

namespace {

constexpr unsigned warps = 8;
constexpr unsigned threads = warps * warp_size;
/// Pieces of a weight's row that a lane has in flight.
constexpr unsigned depth = 4;
/// What a block may hold of the rows that are multiplied; more are read where they stand.
constexpr std::size_t staged_bytes = std::size_t{46} << 10;
/// Blocks that an SM has at once; each takes rows of the weight until there are none left.
constexpr unsigned blocks_at_once = 4;
/// Fewer warps than this leave a large GPU's memory idle: several then share a row of the weight.
constexpr std::size_t warps_least = 2112;

/// Where the rows come from: as they are, or from hidden rows through a norm.
template <typename T>
struct AsTheyAre {
  const T* x;
  __device__ void stage(T* to, std::size_t rows, std::size_t in, float*) const {
    constexpr unsigned piece = Piece<T>::count;
    if (in % piece != 0) {
      for (std::size_t i = threadIdx.x; i < rows * in; i += threads) to[i] = x[i];
      return;
    }
    for (std::size_t i = threadIdx.x * piece; i < rows * in; i += threads * piece)
      *reinterpret_cast<Piece<T>*>(to + i) = load_piece(x + i);
  }
};
template <typename T>
struct Normed {
  Norm norm;
  __device__ void stage(T* to, std::size_t rows, std::size_t in, float* scratch) const {
    for (std::size_t r = 0; r < rows; ++r)
      norm_row(norm, Branch<float>{}, r, static_cast<unsigned>(in), scratch, to + r * in);
  }
};

/// Where the sums go.
template <typename U>
struct Stored {
  U* y;
  const float* bias;
  std::size_t out;
  __device__ void operator()(std::size_t row, std::size_t o, const float* sums) const {
    store(y + row * out + o, sums[0] + (bias != nullptr ? bias[o] : 0.0F));
  }
};
struct Added {
  float* hidden;
  const float *bias, *scale;
  Modulated modulated;
  std::size_t out;
  __device__ void operator()(std::size_t row, std::size_t o, const float* sums) const {
    float v = sums[0] + (bias != nullptr ? bias[o] : 0.0F);
    if (scale != nullptr) v *= scale[o];
    if (modulated.values != nullptr)
      v *= modulated.values[modulated.of_row[row] * modulated.stride + 2 * out + o];
    hidden[row * out + o] += v;
  }
};
template <typename T>
struct Gated {
  T* y;
  const float* bias;
  std::size_t out;
  kernels::Activation kind;
  __device__ void operator()(std::size_t row, std::size_t o, const float* sums) const {
    const float gate = sums[0] + (bias != nullptr ? bias[o] : 0.0F);
    const float up = sums[1] + (bias != nullptr ? bias[out + o] : 0.0F);
    store(y + row * out + o, activated(kind, gate) * up);
  }
};

/// Part `part` of `parts` of the products of R rows with W rows of the weight, `out` rows apart:
/// a lane takes 16 bytes at a time, `depth` of them before it uses any; what is left singly.
template <unsigned R, unsigned W, typename T>
__device__ __forceinline__ void products(const T* x, const T* weight, std::size_t apart,
                                         std::size_t in, unsigned part, unsigned parts,
                                         float (&sums)[R][W]) {
  constexpr unsigned piece = Piece<T>::count;
  constexpr unsigned step = warp_size * piece;
  const unsigned lane = threadIdx.x % warp_size;
  const std::size_t whole = in % piece == 0 ? in : 0;  // rows must begin on 16 bytes
  for (std::size_t from = part * step + lane * piece; from < whole; from += depth * parts * step) {
    Piece<T> w[depth][W];
    SLUICE_UNROLL
    for (unsigned d = 0; d < depth; ++d) SLUICE_UNROLL
    for (unsigned n = 0; n < W; ++n)
      if (from + d * parts * step < whole)
        w[d][n] = load_piece(weight + n * apart + from + d * parts * step);
    SLUICE_UNROLL
    for (unsigned d = 0; d < depth; ++d) {
      const std::size_t i = from + d * parts * step;
      if (i >= whole) break;
      SLUICE_UNROLL
      for (unsigned r = 0; r < R; ++r) {
        const Piece<T> v = load_piece(x + r * in + i);
        SLUICE_UNROLL
        for (unsigned n = 0; n < W; ++n) SLUICE_UNROLL
        for (unsigned k = 0; k < piece; ++k)
          sums[r][n] += load(w[d][n].values[k]) * load(v.values[k]);
      }
    }
  }
  for (std::size_t i = whole + part * warp_size + lane; i < in; i += parts * warp_size)
    SLUICE_UNROLL
  for (unsigned r = 0; r < R; ++r) SLUICE_UNROLL
  for (unsigned n = 0; n < W; ++n) sums[r][n] += load(weight[n * apart + i]) * load(x[r * in + i]);
}

/// What a warp reads first: weights are there before the rows are.
template <unsigned W, typename T>
__device__ __forceinline__ void ask_for(const T* weight, std::size_t o, std::size_t out,
                                        std::size_t in, unsigned part, unsigned parts) {
  constexpr unsigned line = 128 / sizeof(T);
  if (o >= out) return;
  const std::size_t first = (part * warp_size + threadIdx.x % warp_size) * line;
  for (std::size_t i = first; i < in; i += std::size_t{parts} * warp_size * line)
    for (unsigned n = 0; n < W; ++n) prefetch(weight + (n * out + o) * in + i);
}

/// `parts` warps share a row of the weight. With `staged`, a block first brings the rows to shared
/// memory; else they are read from `from.x`.
template <unsigned R, unsigned W, typename T, typename From, typename To>
__global__ void matvec_kernel(From from, const T* direct, const T* weight, To to, std::size_t out,
                              std::size_t in, unsigned parts) {
  const unsigned warp = threadIdx.x / warp_size;
  const unsigned lane = threadIdx.x % warp_size;
  const unsigned at_once = warps / parts;  // rows of the weight
  ask_for<W>(weight, std::size_t{blockIdx.x} * at_once + warp / parts, out, in, warp % parts,
             parts);
  wait_for_inputs();
  SLUICE_SHARED(float, shared);
  float* partial = shared;  // [warps][R][W]; before that, what the norm needs
  const T* x = direct;
  if (direct == nullptr) {
    T* staged = reinterpret_cast<T*>(shared + warps * R * W + warp_size);
    from.stage(staged, R, in, shared);
    __syncthreads();
    x = staged;
  }
  for (std::size_t first = std::size_t{blockIdx.x} * at_once; first < out;
       first += std::size_t{gridDim.x} * at_once) {
    const std::size_t o = first + warp / parts;
    float sums[R][W] = {};
    if (o < out) products<R, W>(x, weight + o * in, out * in, in, warp % parts, parts, sums);
    SLUICE_UNROLL
    for (unsigned r = 0; r < R; ++r) SLUICE_UNROLL
    for (unsigned n = 0; n < W; ++n) sums[r][n] = warp_sum(sums[r][n]);
    if (parts > 1) {
      if (lane == 0)
        for (unsigned r = 0; r < R; ++r)
          for (unsigned n = 0; n < W; ++n) partial[(warp * R + r) * W + n] = sums[r][n];
      __syncthreads();
      if (warp % parts == 0)
        for (unsigned p = 1; p < parts; ++p)
          for (unsigned r = 0; r < R; ++r)
            for (unsigned n = 0; n < W; ++n) sums[r][n] += partial[((warp + p) * R + r) * W + n];
      __syncthreads();
    }
    if (o < out && warp % parts == 0 && lane == 0) {
      SLUICE_UNROLL
      for (unsigned r = 0; r < R; ++r) to(r, o, sums[r]);
    }
  }
}

/// Blocks per SM times the rounds of each is what an SM does: the number for which that is least.
unsigned choose_blocks(unsigned rounds_of_one) {
  unsigned best = 0;
  unsigned least = 0;
  for (unsigned each = 2; each <= blocks_at_once; ++each) {
    const unsigned blocks = each * processors();
    const unsigned cost = blocks_for(rounds_of_one, blocks) * each;
    if (best != 0 && cost > least) continue;
    best = blocks;
    least = cost;
  }
  return std::min(best, rounds_of_one);
}

template <unsigned R, unsigned W, typename T, typename From, typename To>
void launch(const From& from, const T* direct, const T* weight, const To& to, std::size_t out,
            std::size_t in, Stream stream) {
  unsigned parts = 1;
  while (parts < warps && out * parts < warps_least && in > parts * warp_size * Piece<T>::count)
    parts *= 2;
  const unsigned blocks = choose_blocks(blocks_for(out, warps / parts));
  const std::size_t shared =
      (warps * R * W + warp_size) * sizeof(float) + (direct == nullptr ? R * in * sizeof(T) : 0);
  SLUICE_LAUNCH((matvec_kernel<R, W, T, From, To>), Dim{blocks}, threads, shared, stream, from,
                direct, weight, to, out, in, parts);
}

template <unsigned W, typename T, typename From, typename To>
void launch(const From& from, const T* direct, const T* weight, const To& to, std::size_t rows,
            std::size_t out, std::size_t in, Stream stream) {
  if (rows == 0 || out == 0) return;
  SLUICE_CHECK(rows <= matvec_rows<T>, "more rows than a product without tensor cores takes");
  if constexpr ((matvec_rows<T>) > 1) {
    if (rows == 2) return launch<2, W>(from, direct, weight, to, out, in, stream);
    if (rows == 3) return launch<3, W>(from, direct, weight, to, out, in, stream);
    if (rows == 4) return launch<4, W>(from, direct, weight, to, out, in, stream);
  }
  launch<1, W>(from, direct, weight, to, out, in, stream);
}

template <typename T>
const T* unless_staged(const T* x, std::size_t rows, std::size_t in) {
  return rows * in * sizeof(T) <= staged_bytes ? nullptr : x;
}

}  // namespace

template <typename T>
bool fits_normed(std::size_t rows, std::size_t in) {
  return rows <= matvec_rows<T> && rows * in * sizeof(T) <= staged_bytes;
}

template <typename T, typename U>
void matvec(const T* x, const T* weight, const float* bias, U* y, std::size_t rows, std::size_t out,
            std::size_t in, Stream stream) {
  launch<1>(AsTheyAre<T>{x}, unless_staged(x, rows, in), weight, Stored<U>{y, bias, out}, rows, out,
            in, stream);
}

template <typename T, typename U>
void matvec_normed(const Norm& norm, const T* weight, const float* bias, U* y, std::size_t rows,
                   std::size_t out, std::size_t in, Stream stream) {
  launch<1>(Normed<T>{norm}, static_cast<const T*>(nullptr), weight, Stored<U>{y, bias, out}, rows,
            out, in, stream);
}

template <typename T>
void matvec_added(const T* x, const T* weight, const float* bias, const float* scale,
                  const Modulated& modulated, float* hidden, std::size_t rows, std::size_t out,
                  std::size_t in, Stream stream) {
  launch<1>(AsTheyAre<T>{x}, unless_staged(x, rows, in), weight,
            Added{hidden, bias, scale, modulated, out}, rows, out, in, stream);
}

template <typename T>
void matvec_gated(const Norm& norm, kernels::Activation kind, const T* weight, const float* bias,
                  T* y, std::size_t rows, std::size_t out, std::size_t in, Stream stream) {
  launch<2>(Normed<T>{norm}, static_cast<const T*>(nullptr), weight, Gated<T>{y, bias, out, kind},
            rows, out, in, stream);
}

#define SLUICE_INSTANCES(T)                                                                       \
  template bool fits_normed<T>(std::size_t, std::size_t);                                         \
  template void matvec_added<T>(const T*, const T*, const float*, const float*, const Modulated&, \
                                float*, std::size_t, std::size_t, std::size_t, Stream);           \
  template void matvec_gated<T>(const Norm&, kernels::Activation, const T*, const float*, T*,     \
                                std::size_t, std::size_t, std::size_t, Stream);
SLUICE_INSTANCES(float)
SLUICE_INSTANCES(Bf16)

#define SLUICE_PRODUCTS(T, U)                                                                \
  template void matvec<T, U>(const T*, const T*, const float*, U*, std::size_t, std::size_t, \
                             std::size_t, Stream);                                           \
  template void matvec_normed<T, U>(const Norm&, const T*, const float*, U*, std::size_t,    \
                                    std::size_t, std::size_t, Stream);
SLUICE_PRODUCTS(float, float)
SLUICE_PRODUCTS(Bf16, Bf16)
SLUICE_PRODUCTS(Bf16, float)

}  // namespace sluice::device
