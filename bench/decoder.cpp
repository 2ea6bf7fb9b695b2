// Tokens per second of the decoder, beside what the memory allows and beside llama.cpp, in the
// same run.
//
// Usage: bench_decoder [--root REPOSITORY] [--model FILE.gguf] [--precision exact|bf16|int8]
//                      [--isa NAME] [--peer LLAMA_BENCH [BF16.gguf Q8_0.gguf]]
// --isa: nothing above that instruction set (`bf16`: no tiles; names as in kernels/isa.h), as on a
// processor without it; the peer keeps what it was built with.
// --model: that file alone, as it lies, 512 tokens of prompt and 64 of answer; with `--precision
// bf16`, of a BF16 file, activations are rounded before a product, as llama.cpp does it.
// LLAMA_BENCH is llama.cpp's, or bench/llama_bench.py; bench/make_gguf.py writes the two files,
// bench/requantize_gguf.py a file's matrices in another type.
//
// Decode at batch 1 reads every weight once per token, so its bound is read bandwidth / weight
// bytes. The bandwidth is that of summing a buffer as large as the model with the same wide loads
// and threads, before and behind each decode: from one minute to the next it may double. Prefill is
// bound by arithmetic: its bound is one large bf16 product, over a file's quantised blocks what
// 16-bit whole numbers in registers give. Sixteen sequences that decode together stand beside one.
// Two shapes: models/scenes, and one of 386 M parameters (24 layers, 896 wide, vocabulary 32,000)
// with random weights, in bf16 and int8. All cores on both sides.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "bench/peak.h"
#include "bench/peer.h"
#include "bench/usage.h"
#include "engine/family/model.h"
#include "kernels/huge_vector.h"
#include "kernels/isa.h"
#include "kernels/parallel.h"

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

/// Bytes per second of reading a buffer with all cores; what fits stays in the cache.
double read_bandwidth(const kernels::HugeVector<std::uint64_t>& buffer) {
  std::vector<double> rates;
  std::atomic<std::uint64_t> sum = 0;
  for (int run = 0; run < 4; ++run) {
    const auto start = Clock::now();
    kernels::parallel_for(buffer.size(), 1 << 14, [&](std::size_t begin, std::size_t end) {
      sum += sum_of(buffer.data() + begin, end - begin);
    });
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

constexpr std::size_t sequences_together = 16;

struct Rates {
  double prefill = 0, decode = 0;  // tokens per second
};

Rates measure_once(const Decoder& decoder, KvPool& pool, std::size_t prompt, std::size_t answer) {
  const std::vector<float> prompt_rows = rows_of(decoder, prompt);
  const std::vector<float> one = rows_of(decoder, 1);
  std::vector<float> hidden;
  std::vector<float> logits;
  Rates rates;
  KvSequence sequence;
  auto start = Clock::now();
  forward(decoder, pool, sequence, prompt_rows, hidden);
  decoder.logits(std::span(hidden).last(decoder.width()), logits);  // as the peer does
  rates.prefill = static_cast<double>(prompt) / seconds_since(start);
  // As the peer does it: tokens are made from an empty sequence.
  pool.truncate(sequence, 0);
  start = Clock::now();
  for (std::size_t i = 0; i < answer; ++i) {
    forward(decoder, pool, sequence, one, hidden);
    decoder.logits(hidden, logits);
  }
  rates.decode = static_cast<double>(answer) / seconds_since(start);
  pool.truncate(sequence, 0);
  return rates;
}

struct Rate {
  double ours, bound, share;
};

void print_rate(const char* what, const Rate& rate, const std::vector<double>& peer) {
  std::printf("  %s %8.1f tokens/s   bound %8.1f   share %.2f", what, rate.ours, rate.bound,
              rate.share);
  if (!peer.empty()) {
    const double theirs = median(peer);
    std::printf("   llama.cpp %8.1f   ours/llama.cpp %.2f", theirs, rate.ours / theirs);
  }
  std::printf("\n");
}

/// Tokens per second of sixteen sequences that advance together, each by `answer` tokens.
double together(const Decoder& decoder, std::size_t answer) {
  KvPool pool(decoder.kv_shape(16), sequences_together * (answer / 16 + 2));
  std::vector<KvSequence> sequences(sequences_together);
  const std::vector<float> one = rows_of(decoder, 1);
  std::vector<Chunk> chunks;
  for (KvSequence& sequence : sequences) chunks.push_back({&sequence, one});
  std::vector<float> hidden, logits;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < answer; ++i) {
    SLUICE_CHECK(decoder.forward(pool, chunks, hidden).ok());
    decoder.logits(hidden, logits);
  }
  return static_cast<double>(sequences_together * answer) / seconds_since(start);
}

Result<void> measure(const std::string& name, const Decoder& decoder, std::size_t prompt,
                     std::size_t answer, double prefill_bound, const Peer* peer) {
  KvPool pool(decoder.kv_shape(16), (prompt + answer) / 16 + 2);
  (void)measure_once(decoder, pool, prompt, answer);  // warm-up
  std::vector<double> prefill, decode, sixteen, bound, share, peer_prefill, peer_decode;
  const kernels::HugeVector<std::uint64_t> buffer(decoder.stream_bytes() / 8, 1);
  const auto bytes = static_cast<double>(decoder.stream_bytes());
  for (int run = 0; run < 5; ++run) {
    const double before = read_bandwidth(buffer);
    const Rates rates = measure_once(decoder, pool, prompt, answer);
    bound.push_back((before + read_bandwidth(buffer)) / 2 / bytes);
    share.push_back(rates.decode / bound.back());
    prefill.push_back(rates.prefill);
    decode.push_back(rates.decode);
    sixteen.push_back(together(decoder, answer));
    if (peer == nullptr) continue;
    const Result<double> theirs = ask_peer(*peer, "-p", prompt);
    if (!theirs.ok()) return theirs.error();
    const Result<double> also = ask_peer(*peer, "-n", answer);
    if (!also.ok()) return also.error();
    peer_prefill.push_back(*theirs);
    peer_decode.push_back(*also);
  }
  std::printf("%s (%.1f MB a token)\n", name.c_str(), bytes / 1e6);
  print_rate("prefill", {median(prefill), prefill_bound, median(prefill) / prefill_bound},
             peer_prefill);
  print_rate("decode ", {median(decode), median(bound), median(share)}, peer_decode);
  std::printf("  %zu sequences together %8.1f tokens/s   %.2f times one\n", sequences_together,
              median(sixteen), median(sixteen) / median(decode));
  std::fflush(stdout);
  return {};
}

Decoder random_decoder(DecoderShape shape, kernels::WeightFormat format) {
  const SafetensorsFile file = SafetensorsFile::random(2);
  const DecoderNames names = find_decoder(file, shape);
  return std::move(Decoder::load(shape, names, file, format)).value();
}

/// Of one token through the layers, without the head.
double flops_of(const DecoderShape& shape) {
  const BlockShape& b = shape.block;
  const std::size_t values =
      b.width * (b.head_shape().row() + b.heads * b.head_dim) + 3 * b.width * b.mlp;
  return 2.0 * static_cast<double>(shape.layers * values);
}

struct Options {
  std::string root = ".", model, precision = "exact", isa;
  std::vector<std::string> peer;  // its program, and perhaps two files
};

constexpr const char* usage =
    "usage: bench_decoder [--root REPOSITORY] [--model FILE.gguf] [--precision exact|bf16|int8] "
    "[--isa portable|avx2|avx512|vnni|bf16|bf16-fast|amx] [--peer LLAMA_BENCH [BF16.gguf "
    "Q8_0.gguf]]";

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--root") options.root = argv[i + 1];
    if (name == "--model") options.model = argv[i + 1];
    if (name == "--precision") options.precision = argv[i + 1];
    if (name == "--isa") options.isa = argv[i + 1];
    for (int k = i + 1; name == "--peer" && k < std::min(argc, i + 4) && argv[k][0] != '-'; ++k)
      options.peer.emplace_back(argv[k]);
  }
  return options;
}

Result<void> measure_shapes(const Options& options, const DecoderShape& scenes) {
  using kernels::WeightFormat;
  if (auto done = measure("scenes, exact", random_decoder(scenes, WeightFormat::exact), 128, 128,
                          product_rate() / flops_of(scenes), nullptr);
      !done.ok())
    return done;
  DecoderShape large = scenes;
  large.vocabulary = 32'000;
  large.block.width = 896;
  large.layers = 24;
  large.block.heads = 14;
  large.block.kv_heads = 2;
  large.block.head_dim = 64;
  large.block.mlp = 4864;
  large.positions_max = 4096;
  large.rope.theta = 1e6;
  const bool beside = options.peer.size() == 3;
  for (const bool narrow : {false, true}) {
    const Peer peer{beside ? options.peer[0] : "", beside ? options.peer[narrow ? 2 : 1] : ""};
    auto done = measure(narrow ? "386M, int8 (peer: Q8_0)" : "386M, bf16",
                        random_decoder(large, narrow ? WeightFormat::int8 : WeightFormat::bf16),
                        512, 64, product_rate() / flops_of(large), beside ? &peer : nullptr);
    if (!done.ok()) return done;
  }
  return {};
}

/// A GGUF file as it lies, and the peer on the same file.
Result<void> measure_file(const Options& options) {
  using kernels::WeightFormat;
  const bool is_exact = options.precision == "exact", is_bf16 = options.precision == "bf16";
  if (!is_exact && !is_bf16 && options.precision != "int8") return invalid_argument(usage);
  const Result<Model> model = Model::open(options.model, is_exact  ? WeightFormat::exact
                                                         : is_bf16 ? WeightFormat::bf16
                                                                   : WeightFormat::int8);
  if (!model.ok()) return model.error();
  const Peer peer{options.peer.empty() ? "" : options.peer[0], options.model};
  return measure(options.model + ", " + options.precision, model->text(), 512, 64,
                 (is_exact ? whole_rate() : product_rate()) / flops_of(model->text().shape()),
                 options.peer.empty() ? nullptr : &peer);
}

/// False: there is no such instruction set.
bool limit_to(const std::string& isa) {
  for (const kernels::Isa level : kernels::isa_levels)
    if (isa == kernels::name_of(level)) {
      kernels::limit_isa(level);
      return true;
    }
  return isa.empty();
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status =
          usage_status(argc, argv, usage, {"--root", "--model", "--precision", "--isa", "--peer"}))
    return *status;
  const Options options = read_options(argc, argv);
  if (!limit_to(options.isa)) {
    std::fprintf(stderr, "error: --isa %s: no such instruction set\n%s\n", options.isa.c_str(),
                 usage);
    return 1;
  }
  if (!options.isa.empty()) std::printf("instruction sets up to %s\n", options.isa.c_str());
  const Result<Architecture> scenes = Architecture::load(options.root + "/models/scenes");
  if (!scenes.ok()) {
    std::fprintf(stderr, "error: %s\n%s\n", scenes.error().message.c_str(), usage);
    return 1;
  }
  if (options.model.empty()) print_rates();
  const Result<void> done =
      options.model.empty() ? measure_shapes(options, *scenes->text) : measure_file(options);
  if (!done.ok()) std::fprintf(stderr, "error: %s\n", done.error().message.c_str());
  return done.ok() ? 0 : 1;
}
