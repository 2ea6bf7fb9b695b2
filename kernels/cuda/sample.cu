// Tokens from logits, by two kernels: blocks that each find the largest logit of a part of a row,
// then a block per row that joins them and draws if something is to be drawn.
//
// Likelihoods are summed as whole numbers, so that the sums are the same in any order.
#include <bit>

#include "kernels/cuda/grid.h"
#include "kernels/cuda/kernels.h"

namespace sluice::device {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr unsigned part_threads = block_of(256);
constexpr unsigned row_threads = block_of(1024);
constexpr u32 part_tokens = 4096;
constexpr u32 bin_count = 2048;
/// The likeliest token's weight; its exponent's bits and a vocabulary's together fit 64.
constexpr float whole_weight = 0x1p40F;
constexpr float weightless = 28;  // exp(-28) is less than 2^-40

/// A number that orders as the float does: -0 as 0, and what is no number below all others.
__device__ __forceinline__ u32 key_of(float value) {
  if (value != value) return 0;
  const u32 bits = std::bit_cast<u32>(value + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
__device__ __forceinline__ float value_of(u32 key) {
  return std::bit_cast<float>((key & 0x80000000U) != 0 ? key & 0x7fffffffU : ~key);
}

/// The greater of two has the greater logit, or of equal ones the lower token.
__device__ __forceinline__ u64 ranked(float logit, u32 token) {
  return static_cast<u64>(key_of(logit)) << 32 | ~token;
}

/// `visit(logit, token)` for each token in [begin, end), by all threads of the block.
template <typename Visit>
__device__ __forceinline__ void walk(const float* row, u32 begin, u32 end, const Visit& visit) {
  using Four = Piece<float>;
  constexpr u32 in_flight = 4;
  const auto past =
      static_cast<u32>(reinterpret_cast<std::uintptr_t>(row + begin) / sizeof(float) % Four::count);
  const u32 before = (Four::count - past) % Four::count;
  const u32 aligned = before < end - begin ? begin + before : end;
  const u32 pieces = (end - aligned) / Four::count;
  for (u32 i = begin + threadIdx.x; i < aligned; i += blockDim.x) visit(row[i], i);
  for (u32 first = threadIdx.x; first < pieces; first += in_flight * blockDim.x) {
    Four loaded[in_flight] = {};
    SLUICE_UNROLL
    for (u32 n = 0; n < in_flight; ++n)
      if (const u32 piece = first + n * blockDim.x; piece < pieces)
        loaded[n] = load_piece(row + aligned + piece * Four::count);
    SLUICE_UNROLL
    for (u32 n = 0; n < in_flight; ++n)
      if (const u32 piece = first + n * blockDim.x; piece < pieces) SLUICE_UNROLL
    for (u32 i = 0; i < Four::count; ++i)
      visit(loaded[n].values[i], aligned + piece * Four::count + i);
  }
  for (u32 i = aligned + pieces * Four::count + threadIdx.x; i < end; i += blockDim.x)
    visit(row[i], i);
}

/// The greatest of all threads of the block. `scratch`: a value per warp.
__device__ u64 block_greatest(u64 value, u64* scratch) {
  for (unsigned mask = warp_size / 2; mask > 0; mask /= 2) {
    const u64 other = __shfl_xor_sync(0xffffffffU, value, mask);
    value = other > value ? other : value;
  }
  if (threadIdx.x % warp_size == 0) scratch[threadIdx.x / warp_size] = value;
  __syncthreads();
  for (unsigned warp = 0; warp < blockDim.x / warp_size; ++warp)
    value = scratch[warp] > value ? scratch[warp] : value;
  return value;
}

struct Sums {
  u64 before = 0, all = 0;  // of the threads before this one; of all
};
/// Of all threads of the block. `scratch`: a value per warp.
__device__ Sums block_sums(u64 value, u64* scratch) {
  Sums sums{0, value};
  for (unsigned mask = 1; mask < warp_size; mask *= 2) {
    const u64 other = __shfl_xor_sync(0xffffffffU, sums.all, mask);
    if ((threadIdx.x & mask) != 0) sums.before += other;
    sums.all += other;
  }
  __syncthreads();
  const unsigned own = threadIdx.x / warp_size;
  if (threadIdx.x % warp_size == 0) scratch[own] = sums.all;
  __syncthreads();
  sums.all = 0;
  for (unsigned warp = 0; warp < blockDim.x / warp_size; ++warp) {
    if (warp < own) sums.before += scratch[warp];
    sums.all += scratch[warp];
  }
  return sums;
}

/// A histogram in shared memory. Sums of 64 bits as two words: shared memory adds words at once.
struct Bins {
  u32 low[bin_count], high[bin_count];
  u64 scratch[warp_size];
  u64 found_before;
  u32 found;

  __device__ void clear() {
    for (u32 i = threadIdx.x; i < bin_count; i += blockDim.x) low[i] = high[i] = 0;
  }
  __device__ __forceinline__ void add(u32 bin, u64 amount) {
    const auto word = static_cast<u32>(amount);
    const u32 old = atomicAdd(&low[bin], word);
    const u32 carried = static_cast<u32>(amount >> 32) + (old + word < old ? 1 : 0);
    if (carried != 0) atomicAdd(&high[bin], carried);
  }
  __device__ u64 at(u32 bin) const { return static_cast<u64>(high[bin]) << 32 | low[bin]; }
};

struct Found {
  bool any = false;
  u32 place = 0;
  u64 rest = 0;  // of what was sought, without the amounts before `place`
};
/// The first place, in [0, limit], at which the amounts up to it reach what is sought.
/// `each(low, span, add)` calls `add(place, amount)` for all in [low, low + span];
/// `sought(all)`: of the sum of all amounts. None where it is 0 or more than that.
template <typename Each, typename Sought>
__device__ Found find_place(u32 limit, const Each& each, const Sought& sought, Bins& bins) {
  Found found;
  u32 span = limit;
  for (bool first = true;; first = false) {
    unsigned shift = 0;
    while (span >> shift >= bin_count) ++shift;
    bins.clear();
    __syncthreads();
    const u32 low = found.place;
    each(low, span, [&](u32 place, u64 amount) { bins.add((place - low) >> shift, amount); });
    __syncthreads();
    constexpr u32 per_thread = bin_count / row_threads;
    u32 bin = threadIdx.x * per_thread;
    u64 own = 0;
    for (u32 i = 0; i < per_thread; ++i) own += bins.at(bin + i);
    Sums sums = block_sums(own, bins.scratch);
    if (first) {
      found.rest = sought(sums.all);
      if (found.rest == 0 || found.rest > sums.all) return found;
      found.any = true;
    }
    if (sums.before < found.rest && found.rest <= sums.before + own) {  // one thread
      while (sums.before + bins.at(bin) < found.rest) sums.before += bins.at(bin++);
      bins.found = bin;
      bins.found_before = sums.before;
    }
    __syncthreads();
    found.place += bins.found << shift;
    found.rest -= bins.found_before;
    if (shift == 0) return found;
    const u32 bin_span = (1U << shift) - 1;
    span = limit - found.place < bin_span ? limit - found.place : bin_span;
  }
}

/// Tokens by depth: how far a logit's key is below the largest one's.
struct Row {
  const float* logits;
  u32 count, top;
  float most, least, sharpness;  // tokens below `least` have no weight

  __device__ Row(const float* from, u32 tokens, u32 top_key, float temperature)
      : logits(from),
        count(tokens),
        top(top_key),
        most(value_of(top_key)),
        least(most - weightless * temperature),
        sharpness(1 / temperature) {}

  __device__ __forceinline__ u32 depth(float logit) const { return top - key_of(logit); }
  /// In proportion to the probability.
  __device__ __forceinline__ u64 weight(float logit) const {
    const float share = logit == most ? 1.0F : __expf((logit - most) * sharpness);
    return share > 0 ? static_cast<u64>(share * whole_weight) : 0;
  }
  /// The depth at which the amounts of tokens up to it reach what is sought.
  template <typename Amount, typename Sought>
  __device__ Found find_depth(u32 limit, const Amount& amount, const Sought& sought,
                              Bins& bins) const {
    const auto each = [&](u32 low, u32 span, const auto& add) {
      walk(logits, 0, count, [&](float logit, u32) {
        if (!(logit >= least)) return;
        const u32 place = depth(logit);
        if (place - low <= span) add(place, amount(logit));
      });
    };
    return find_place(limit, each, sought, bins);
  }
  /// Of the tokens of one depth, from 0, in their order.
  __device__ Found find_token(u32 of_depth, u64 number, Bins& bins) const {
    const auto each = [&](u32 low, u32 span, const auto& add) {
      walk(logits, low, low + span + 1, [&](float logit, u32 token) {
        if (depth(logit) == of_depth) add(token, 1);
      });
    };
    return find_place(
        count - 1, each, [&](u64) { return number + 1; }, bins);
  }
};

/// The depth down to which tokens may be drawn.
__device__ u32 find_limit(const Row& row, const SampleRow& option, Bins& bins) {
  u32 limit = row.depth(row.least);
  if (option.top_k != 0 && option.top_k < row.count) {
    const auto one = [](float) { return u64{1}; };
    const auto sought = [&](u64) { return u64{option.top_k}; };
    const Found found = row.find_depth(limit, one, sought, bins);
    if (found.any) limit = found.place;  // else only the weightless are left out
  }
  if (option.top_p < 1) {
    const auto weight = [&](float logit) { return row.weight(logit); };
    const auto sought = [&](u64 all) {
      const double share = ceil(static_cast<double>(option.top_p) * static_cast<double>(all));
      return share >= 1 ? static_cast<u64>(share) : u64{1};
    };
    const Found found = row.find_depth(limit, weight, sought, bins);
    if (found.any) limit = found.place;
  }
  if (option.min_p > 0) {
    const float floor = row.most + option.temperature * logf(option.min_p);
    const u32 depth = floor < row.most ? row.depth(floor) : 0;
    limit = depth < limit ? depth : limit;
  }
  return limit;
}

/// From the likeliest on, tokens of equal logits in their order: where the weights pass `uniform`.
__device__ u32 draw(const Row& row, const SampleRow& option, u32 likeliest, Bins& bins) {
  const u32 limit = find_limit(row, option, bins);
  const auto weight = [&](float logit) { return row.weight(logit); };
  const auto sought = [&](u64 all) {
    const auto passed =
        static_cast<u64>(static_cast<double>(option.uniform) * static_cast<double>(all));
    return passed < all ? passed + 1 : all;
  };
  const Found drawn = row.find_depth(limit, weight, sought, bins);
  if (!drawn.any) return likeliest;
  const u64 each = row.weight(value_of(row.top - drawn.place));
  const Found token = row.find_token(drawn.place, (drawn.rest - 1) / each, bins);
  return token.any ? token.place : likeliest;
}

/// A block per row and part. `best`: the best of each, [rows, parts].
__global__ void __launch_bounds__(part_threads)
    part_kernel(float* logits, u32 vocabulary, const SampleRow* options,
                const std::int32_t* history, u64* best) {
  wait_for_inputs();
  SLUICE_SHARED(u64, scratch);
  const SampleRow option = options[blockIdx.x];
  float* mine = logits + static_cast<std::size_t>(blockIdx.x) * vocabulary;
  const u32 begin = blockIdx.y * part_tokens;
  const u32 end = vocabulary - begin < part_tokens ? vocabulary : begin + part_tokens;
  if (option.repetition_penalty != 1)
    for (u32 i = option.history_begin + threadIdx.x; i < option.history_end; i += blockDim.x) {
      const auto token = static_cast<u32>(history[i]);
      if (token < begin || token >= end) continue;
      float& logit = mine[token];
      logit = logit > 0 ? logit / option.repetition_penalty : logit * option.repetition_penalty;
    }
  __syncthreads();
  u64 most = 0;
  walk(mine, begin, end, [&](float logit, u32 token) {
    const u64 other = ranked(logit, token);
    most = other > most ? other : most;
  });
  most = block_greatest(most, scratch);
  if (threadIdx.x == 0) best[static_cast<std::size_t>(blockIdx.x) * gridDim.y + blockIdx.y] = most;
}

/// A block per row.
__global__ void __launch_bounds__(row_threads)
    row_kernel(const float* logits, u32 vocabulary, const SampleRow* options, const u64* best,
               u32 parts, std::int32_t* tokens) {
  wait_for_inputs();
  SLUICE_SHARED(Bins, bins);
  const SampleRow option = options[blockIdx.x];
  u64 most = 0;
  for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
    const u64 other = best[static_cast<std::size_t>(blockIdx.x) * parts + part];
    most = other > most ? other : most;
  }
  most = block_greatest(most, bins->scratch);
  u32 token = ~static_cast<u32>(most);
  if (option.temperature > 0) {
    const Row row(logits + static_cast<std::size_t>(blockIdx.x) * vocabulary, vocabulary,
                  static_cast<u32>(most >> 32), option.temperature);
    token = draw(row, option, token, *bins);
  }
  if (threadIdx.x == 0) tokens[blockIdx.x] = static_cast<std::int32_t>(token);
}

}  // namespace

std::size_t sample_scratch(std::size_t rows, std::size_t vocabulary) {
  return rows * blocks_for(vocabulary, part_tokens) * sizeof(u64);
}

void sample(float* logits, std::size_t rows, std::size_t vocabulary, const SampleRow* options,
            const std::int32_t* history, void* scratch, std::int32_t* tokens, Stream stream) {
  if (rows == 0) return;
  const auto count = static_cast<u32>(vocabulary);
  const unsigned parts = blocks_for(vocabulary, part_tokens);
  const Dim grid{static_cast<unsigned>(rows), parts};
  u64* best = static_cast<u64*>(scratch);
  SLUICE_LAUNCH(part_kernel, grid, part_threads, warp_size * sizeof(u64), stream, logits, count,
                options, history, best);
  SLUICE_LAUNCH(row_kernel, Dim{static_cast<unsigned>(rows)}, row_threads, sizeof(Bins), stream,
                logits, count, options, best, parts, tokens);
}

}  // namespace sluice::device
