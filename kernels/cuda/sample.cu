#include "kernels/cuda/grid.h"
#include "kernels/cuda/kernels.h"

namespace sluice::device {

namespace {

constexpr unsigned threads = block_of(512);

/// A number that orders as the float does.
__device__ __forceinline__ std::uint32_t key_of(float value) {
#ifdef SLUICE_EMULATED
  const auto bits = std::bit_cast<std::uint32_t>(value);
#else
  const std::uint32_t bits = __float_as_uint(value);
#endif
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

struct Row {
  const float* logits;
  std::size_t count;
  float most, temperature;
  float* scratch;

  __device__ float weight(float logit) const { return __expf((logit - most) / temperature); }
  /// The weight, or the number, of all whose key is at least `key`.
  __device__ float mass(std::uint32_t key) const {
    float sum = 0;
    for (std::size_t i = threadIdx.x; i < count; i += blockDim.x)
      if (key_of(logits[i]) >= key) sum += weight(logits[i]);
    return block_sum(sum, scratch);
  }
  __device__ float number(std::uint32_t key) const {
    float sum = 0;
    for (std::size_t i = threadIdx.x; i < count; i += blockDim.x)
      if (key_of(logits[i]) >= key) sum += 1;
    return block_sum(sum, scratch);
  }
};

/// The largest key at which `enough` holds; it holds for all below.
template <typename Enough>
__device__ std::uint32_t largest_key(const Enough& enough) {
  std::uint32_t key = 0;
  for (unsigned bit = 32; bit-- > 0;) {
    const std::uint32_t higher = key | 1U << bit;
    if (enough(higher)) key = higher;
  }
  return key;
}

/// The lowest token of exactly `key`. Exact in a float: a vocabulary has fewer than 2^24.
__device__ std::int32_t first_of_key(const Row& row, std::uint32_t key) {
  float least = -INFINITY;
  for (std::size_t i = threadIdx.x; i < row.count; i += blockDim.x)
    if (key_of(row.logits[i]) == key) {
      least = -static_cast<float>(i);
      break;
    }
  return static_cast<std::int32_t>(-block_max(least, row.scratch));
}

/// The lowest token at which the running sum over tokens of exactly `key` passes `wanted`.
__device__ std::int32_t nth_of_key(const Row& row, std::int32_t first, std::uint32_t key,
                                   float each, float wanted) {
  std::int32_t last = first;
  for (auto i = static_cast<std::size_t>(first); i < row.count; ++i) {
    if (key_of(row.logits[i]) != key) continue;
    last = static_cast<std::int32_t>(i);
    if (wanted < each) return last;
    wanted -= each;
  }
  return last;  // rounding left a little
}

/// A block per row.
__global__ void sample_kernel(float* logits, std::size_t vocabulary, const SampleRow* options,
                              const std::int32_t* history, std::int32_t* tokens) {
  SLUICE_SHARED(float, scratch);
  const SampleRow option = options[blockIdx.x];
  float* mine = logits + blockIdx.x * vocabulary;
  if (option.repetition_penalty != 1)
    for (std::uint32_t i = option.history_begin + threadIdx.x; i < option.history_end;
         i += blockDim.x) {
      float& logit = mine[history[i]];
      logit = logit > 0 ? logit / option.repetition_penalty : logit * option.repetition_penalty;
    }
  __syncthreads();
  float most = -INFINITY;
  for (std::size_t i = threadIdx.x; i < vocabulary; i += blockDim.x) most = fmaxf(most, mine[i]);
  most = block_max(most, scratch);
  const Row row{mine, vocabulary, most, option.temperature, scratch};
  std::uint32_t chosen = key_of(most);
  float before = 0;  // the weight of what is likelier than what is chosen
  float wanted = 0;
  if (option.temperature > 0) {
    std::uint32_t floor = 0;
    if (option.top_k != 0 && option.top_k < vocabulary)
      floor = largest_key(
          [&](std::uint32_t key) { return row.number(key) >= static_cast<float>(option.top_k); });
    if (option.top_p < 1) {
      const float share = option.top_p * row.mass(floor);
      const std::uint32_t lowest =
          largest_key([&](std::uint32_t key) { return row.mass(key) >= share; });
      floor = lowest > floor ? lowest : floor;
    }
    if (option.min_p > 0) {
      const std::uint32_t lowest = key_of(most + option.temperature * logf(option.min_p));
      floor = lowest > floor ? lowest : floor;
    }
    wanted = option.uniform * row.mass(floor);
    chosen = largest_key([&](std::uint32_t key) { return row.mass(key) > wanted; });
    chosen = chosen > floor ? chosen : floor;
    before = chosen == 0xffffffffU ? 0.0F : row.mass(chosen + 1);
  }
  const std::int32_t first = first_of_key(row, chosen);
  if (threadIdx.x != 0) return;
    // The key itself tells the logit, and with it the weight of each token that has it.
#ifdef SLUICE_EMULATED
  const auto logit =
      std::bit_cast<float>((chosen & 0x80000000U) != 0 ? chosen & 0x7fffffffU : ~chosen);
#else
  const float logit = __uint_as_float((chosen & 0x80000000U) != 0 ? chosen & 0x7fffffffU : ~chosen);
#endif
  const float each = option.temperature > 0 ? row.weight(logit) : 1.0F;
  tokens[blockIdx.x] =
      wanted - before < each ? first : nth_of_key(row, first, chosen, each, wanted - before);
}

}  // namespace

void sample(float* logits, std::size_t rows, std::size_t vocabulary, const SampleRow* options,
            const std::int32_t* history, std::int32_t* tokens, Stream stream) {
  if (rows == 0) return;
  SLUICE_LAUNCH(sample_kernel, Dim{static_cast<unsigned>(rows)}, threads, warp_size * sizeof(float),
                stream, logits, vocabulary, options, history, tokens);
}

}  // namespace sluice::device
