// Tokens per second of the decoder, beside what the memory allows in the same run.
//
// Decode at batch 1 reads every weight once per token, so its bound is read bandwidth / weight
// bytes. The bandwidth is that of summing a buffer as large as the model with the same wide loads.
// Two shapes: models/scenes, and one of 386 M parameters (24 layers, 896 wide, vocabulary 32,000)
// with random weights. One thread: the matrix-vector path does not spread over threads.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "roles/model/config.h"

using namespace sluice;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Sums a buffer with the widest loads there are; many sums, so that additions do not wait.
[[gnu::target_clones("avx512f", "avx2", "default"), gnu::optimize("O3")]] std::uint64_t sum_of(
    const std::uint64_t* values, std::size_t count) {
  constexpr std::size_t lanes = 64;
  std::uint64_t sums[lanes] = {};
  for (std::size_t i = 0; i + lanes <= count; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) sums[j] += values[i + j];
  return std::accumulate(sums, sums + lanes, std::uint64_t{0});
}

/// Bytes per second of reading `bytes`, which stay in the cache when they are few.
double read_bandwidth(std::size_t bytes) {
  const std::vector<std::uint64_t> buffer(bytes / 8, 1);
  std::vector<double> rates;
  std::uint64_t sum = 0;
  for (int run = 0; run < 9; ++run) {
    const auto start = Clock::now();
    sum += sum_of(buffer.data(), buffer.size());
    if (run > 0) rates.push_back(static_cast<double>(buffer.size() * 8) / seconds_since(start));
  }
  SLUICE_CHECK(sum >= buffer.size(), "the sum is used");
  return median(rates);
}

std::vector<float> rows_of(const Decoder& backbone, std::size_t tokens) {
  std::vector<float> rows;
  backbone.embed(std::vector<std::int32_t>(tokens, 20), rows);
  return rows;
}

void forward(const Decoder& backbone, KvPool& pool, KvSequence& sequence,
             const std::vector<float>& rows, std::vector<float>& hidden) {
  const Chunk chunk{&sequence, rows};
  const Result<void> ran = backbone.forward(pool, {&chunk, 1}, hidden);
  SLUICE_CHECK(ran.ok());
}

void measure(const std::string& name, const Decoder& backbone, std::size_t prompt,
             std::size_t answer) {
  KvPool pool(backbone.kv_shape(16), (prompt + answer) / 16 + 2);
  const std::vector<float> prompt_rows = rows_of(backbone, prompt);
  const std::vector<float> one = rows_of(backbone, 1);
  std::vector<float> hidden;
  std::vector<float> logits;
  std::vector<double> prefill;
  std::vector<double> decode;
  for (int run = 0; run < 4; ++run) {
    KvSequence sequence;
    auto start = Clock::now();
    forward(backbone, pool, sequence, prompt_rows, hidden);
    prefill.push_back(static_cast<double>(prompt) / seconds_since(start));
    start = Clock::now();
    for (std::size_t i = 0; i < answer; ++i) {
      forward(backbone, pool, sequence, one, hidden);
      backbone.logits(hidden, logits);
    }
    decode.push_back(static_cast<double>(answer) / seconds_since(start));
    pool.truncate(sequence, 0);
  }
  const double bytes = static_cast<double>(backbone.stream_bytes());
  const double bound = read_bandwidth(backbone.stream_bytes()) / bytes;
  std::printf(
      "%-8s prefill %zu: %7.0f tokens/s   decode: %7.1f tokens/s   bound %7.1f tokens/s "
      "(%.1f MB a token)   share %.2f\n",
      name.c_str(), prompt, median(prefill), median(decode), bound, bytes / 1e6,
      median(decode) / bound);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string root = argc > 1 ? argv[1] : ".";
  const Result<ModelConfig> config = ModelConfig::load(root + "/models/scenes");
  if (!config.ok()) {
    std::fprintf(stderr, "error: %s\nusage: bench_decoder [repository]\n",
                 config.error().message.c_str());
    return 1;
  }
  measure("scenes", Decoder::random(config->decoder(), 1), 128, 128);
  ModelConfig large = *config;
  large.vocabulary = 32'000;
  large.width = 896;
  large.layers = 24;
  large.heads = 14;
  large.kv_heads = 2;
  large.head_dim = 64;
  large.mlp = 4864;
  large.positions_max = 4096;
  large.rope_theta = 1e6;
  measure("386M", Decoder::random(large.decoder(), 2), 128, 16);
  return 0;
}
